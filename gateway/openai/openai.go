package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/web"
)

// The names of the tree that are used.
const (
	agentsDir  = "agents"
	computeDir = "compute"
	version    = "v1"
)

// Kinds of work, as compute/new calls them.
const (
	chat       = "chat"
	complete   = "complete"
	embeddings = "embeddings"
)

// App returns what answers at path, if that is part of the API.
func App(path []string) *web.App {
	agent, rest, ok := split(path)
	if !ok {
		return nil
	}
	return &web.App{Refuse: refuse, Serve: func(s *web.Session) {
		c := &call{s: s, agent: agent}
		if agent == "" {
			c.agent = s.Agent
		}
		if err := c.serve(rest); err != nil {
			c.fail(err)
		}
	}}
}

// split returns the agent that path names, or none, and what is asked of it.
func split(path []string) (agent string, rest []string, ok bool) {
	switch {
	case len(path) > 1 && path[0] == version:
		return "", path[1:], true
	case len(path) > 3 && path[0] == agentsDir && path[2] == version:
		return path[1], path[3:], true
	}
	return "", nil, false
}

// A call is one request.
type call struct {
	s       *web.Session
	agent   string
	compute fsys.Node
}

func (c *call) serve(rest []string) error {
	ctx := c.s.R.Context()
	if c.agent == "" {
		return fsys.E(fsys.Invalid, "this token is for all agents; use the base URL /agents/NAME/v1")
	}
	what := strings.Join(rest, "/")
	method := http.MethodPost
	if rest[0] == "models" {
		method = http.MethodGet
	}
	kind, known := map[string]string{"chat/completions": chat, "completions": complete, "embeddings": embeddings}[what]
	switch {
	case rest[0] != "models" && !known:
		return fsys.E(fsys.NotExist, "there is no /v1/"+what+" here; there are models, chat/completions, completions and embeddings")
	case c.s.R.Method != method:
		return fsys.E(fsys.Unsupported, "/v1/"+what+" takes "+method+" only")
	}
	var err error
	if c.compute, err = c.s.Walk(ctx, agentsDir, c.agent, computeDir); err != nil {
		return fsys.Wrap(fsys.NotExist, "there is no such agent, or you may not use its compute", err)
	}
	if rest[0] == "models" {
		return c.models(ctx, strings.Join(rest[1:], "/"))
	}
	return c.ask(kind)
}

// A request is a body, with what this package has to know of it.
type request struct {
	fields map[string]json.RawMessage
	model  string
	stream bool
	usage  bool // wanted at the end of a stream
	whole  bool // has parts that come with the whole answer only
	key    string
}

func parse(body []byte, kind, key string) (*request, error) {
	req := &request{key: key}
	if json.Unmarshal(fsys.TrimBOM(body), &req.fields) != nil || req.fields == nil {
		return nil, fsys.E(fsys.Invalid, "the body is not a JSON object")
	}
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	for _, f := range []struct {
		name, want string
		into       any
	}{
		{"model", "a string", &req.model},
		{"stream", "true or false", &req.stream},
		{"stream_options", "an object", &options},
	} {
		if raw := req.fields[f.name]; raw != nil && json.Unmarshal(raw, f.into) != nil {
			return nil, fsys.E(fsys.Invalid, f.name+" must be "+f.want)
		}
	}
	req.usage = options.IncludeUsage
	for _, name := range []string{"logprobs", "modalities"} {
		raw := string(req.fields[name])
		req.whole = req.whole || raw != "" && raw != "null" && raw != "false"
	}
	req.set("kind", kind)
	req.set("stream", req.stream && !req.whole)
	delete(req.fields, "stream_options") // usage is always asked for
	if kind == embeddings {
		delete(req.fields, "stream")
		req.stream = false
	}
	if key != "" {
		req.set("idempotency_key", key)
	}
	return req, nil
}

func (r *request) set(name string, value any) {
	line := fsys.Line(value)
	r.fields[name] = line[:len(line)-1]
}

// decoded is about how many times as much as its text a request takes, with what
// is made of it.
const decoded = 3

// ask makes a job of the request and answers with what comes of it.
func (c *call) ask(kind string) (err error) {
	end := c.s.Begin("OpenAI " + kind)
	defer func() { end(err) }()
	ctx := c.s.R.Context()
	h, err := fsys.OpenPath(ctx, c.compute, "new", fsys.Read|fsys.Write) // before the body comes, to refuse early
	if err != nil {
		return err
	}
	h.Close()
	body, err := c.s.Body()
	if err == nil {
		err = c.s.Keep(decoded * int64(len(body)))
	}
	if err != nil {
		return err
	}
	req, err := parse(body, kind, c.s.R.Header.Get("Idempotency-Key"))
	if err != nil {
		return err
	}
	number, err := fsys.Converse(ctx, c.compute, "new", fsys.Line(req.fields))
	if err != nil {
		return err
	}
	j := &job{number: strings.TrimSpace(string(number)), kind: kind, req: req, began: time.Now()}
	c.s.W.Header().Set(web.JobHeader, j.number)
	if j.dir, err = fsys.WalkPath(ctx, c.compute, "jobs/"+j.number); err != nil {
		return err
	}
	if req.key == "" {
		defer c.cancelIfGone(ctx, j)
	}
	if err := c.approval(ctx, j); err != nil {
		return err
	}
	switch {
	case req.stream && !req.whole:
		return c.stream(ctx, j)
	case req.stream:
		return c.streamWhole(ctx, j)
	}
	return c.whole(ctx, j)
}

// A job is what a request has become.
type job struct {
	number string
	dir    fsys.Node
	kind   string
	req    *request
	began  time.Time
}

// status is what of a job's status file is used.
type status struct {
	State string `json:"state"`
	Model string `json:"model"`
	Error *struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
	} `json:"error"`
}

func (j *job) status(ctx context.Context) (st status, err error) {
	b, err := fsys.ReadFile(ctx, j.dir, "status")
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	return st, err
}

// The states that matter here.
const (
	awaiting = "awaiting-approval"
	done     = "done"
)

// ended returns why j has no answer, or nil if it has one.
func (j *job) ended(ctx context.Context) error {
	st, err := j.status(ctx)
	switch {
	case err != nil:
		return err
	case st.State == done:
		return nil
	case st.Error == nil:
		return fsys.E(fsys.Internal, "job "+j.number+" is "+st.State)
	}
	return fsys.E(fsys.CodeNamed(st.Error.Code, fsys.Internal), st.Error.Reason)
}

// cancelTime bounds how long the end of a job is waited for whose client has
// gone.
const cancelTime = 5 * time.Second

// cancelIfGone cancels j if its client has gone. What the end of the daemon
// cuts off is for the daemon to settle.
func (c *call) cancelIfGone(ctx context.Context, j *job) {
	if ctx.Err() == nil || fsys.CodeOf(context.Cause(ctx)) == fsys.Unavailable {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	fsys.WriteFile(ctx, j.dir, "ctl", []byte("cancel\n")) // one that has ended refuses it
}

// approval says that j waits for one, unless the client wants to wait too and
// it comes in time.
func (c *call) approval(ctx context.Context, j *job) error {
	st, err := j.status(ctx)
	if err != nil || st.State != awaiting {
		return err
	}
	wait, _, err := c.s.Wait()
	if err != nil {
		return err
	}
	if wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		h, err := fsys.OpenPath(ctx, j.dir, "chunks", fsys.Read)
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = fsys.ReadAt(ctx, h, make([]byte, 1), 0)
		if err == nil || fsys.IsEOF(err) {
			return nil
		}
		if ctx.Err() == nil || c.s.R.Context().Err() != nil {
			return err
		}
		if st, err = j.status(c.s.R.Context()); err != nil || st.State != awaiting {
			return err
		}
	}
	return &needsApproval{fsys.E(fsys.Busy, "job "+j.number+" waits for the operator's approval; once it is approved, repeat the request with the same Idempotency-Key")}
}

// models lists the models, or one of them.
func (c *call) models(ctx context.Context, id string) error {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	all := []model{}
	providers, err := fsys.WalkPath(ctx, c.compute, "providers")
	if err != nil {
		return err
	}
	list, err := fsys.List(ctx, providers)
	if err != nil {
		return err
	}
	for _, p := range list {
		text, err := fsys.ReadFile(ctx, p.Node, "models")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var m struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				return fsys.Wrap(fsys.Internal, "the models of "+p.Name, err)
			}
			seen := slices.ContainsFunc(all, func(o model) bool { return o.ID == m.Name })
			if m.Name != "*" && !seen && (id == "" || id == m.Name) {
				all = append(all, model{m.Name, "model", 0, p.Name})
			}
		}
	}
	switch {
	case id == "":
		return c.s.JSON(http.StatusOK, struct {
			Object string  `json:"object"`
			Data   []model `json:"data"`
		}{"list", all})
	case len(all) == 0:
		return fsys.E(fsys.NotExist, "no provider has the model "+id)
	}
	return c.s.JSON(http.StatusOK, all[0])
}
