package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/store"
)

// run is the life of a session, from provisioning on. When it returns, nothing
// of the session runs.
func (w *session) run() error {
	err := w.live()
	cause := context.Cause(w.Ctx)
	switch {
	case cause != nil:
		err = cause
	case w.hungUp():
		err = errStopped // of which its commands have ended
	}
	if w.s.life.Err() != nil && err != nil && cause != errStopped {
		err = errInterrupted
	}
	w.Cancel(err)
	w.mu.Lock()
	w.stopping = true // nothing is begun any more
	w.mu.Unlock()
	w.acts.Wait()
	w.takeDown()
	return err
}

// live does all that a session is for.
func (w *session) live() error {
	if err := w.Open(w.Ctx); err != nil {
		return err
	}
	if id := w.Record().Token; id != "" && w.s.config.Token != nil {
		if err := w.s.config.Token(w.Ctx, nil, id); err != nil {
			return err
		}
	}
	if err := w.openSecrets(w.Ctx); err != nil {
		return err
	}
	if err := w.provision(); err != nil {
		return err
	}
	if w.plan.req.Repo != nil {
		if err := w.enter(Cloning); err != nil {
			return err
		}
		if err := w.clone(w.Ctx); err != nil {
			return err
		}
		if err := w.putFiles(w.Ctx); err != nil {
			return err
		}
	}
	if err := w.enter(Running); err != nil {
		return err
	}
	close(w.ready)
	err := w.commandsInTurn(w.Ctx)
	if w.Ctx.Err() == nil && w.Record().Keep {
		<-w.Ctx.Done()
	}
	return err
}

// provision makes the sandbox and furnishes it. The clock runs from when it
// does.
func (w *session) provision() error {
	if w.Record().State == Queued {
		ctx := context.WithoutCancel(w.Ctx)
		err := w.s.st.Update(ctx, func(tx store.Store) error {
			if err := w.Holds()[0].Ready(tx); err != nil { // overdrawn meanwhile
				return err
			}
			return w.s.ledger.Change(ctx, tx, w, func(r *record) { r.State, r.Started = Provisioning, w.s.config.Now() })
		})
		if err != nil {
			return err
		}
	}
	spec := sandboxes.Spec{
		Name:   SandboxName(w.s.config.Owner, w.N),
		Agent:  w.s.config.Owner,
		Image:  w.plan.image,
		Pull:   w.plan.policy.pulls(),
		Limits: w.plan.spec,
	}
	if name := string(w.plan.req.Workspace); name != "" {
		spec.Workspace = w.s.workspaceID(name)
		if err := w.s.freeWorkspace(w.Ctx, w.plan.runner, name); err != nil {
			return err
		}
	}
	if w.s.config.Skills != nil {
		var err error
		if spec.Skills, err = w.s.config.Skills(fsys.WithToken(w.Ctx, w.Record().Token)); err != nil {
			return fsys.Wrap(fsys.Internal, "the skills", err)
		}
	}
	box, err := w.plan.runner.Create(w.Ctx, w.Holds()[0], spec, func(line string) { w.output.say(line) })
	if errors.Is(err, sandboxes.ErrNotPulled) {
		return w.plan.policy.notPulled(w.plan.runner.ID(), w.plan.image)
	}
	if err != nil {
		return err
	}
	now := w.s.config.Now()
	w.mu.Lock()
	w.box, w.up, w.lastUse = box, now, now
	w.mu.Unlock()
	at, _ := box.Where().Path(box.Where().Workspace)
	// Commands begin when this is on disk; the files are written meanwhile.
	recorded := make(chan error, 1)
	go func() {
		recorded <- w.s.st.Update(context.WithoutCancel(w.Ctx), func(tx store.Store) error {
			return w.s.ledger.Change(w.Ctx, tx, w, func(r *record) { r.Sandbox, r.Bare, r.Up, r.Mark = box.ID(), at == "", now, now })
		})
	}()
	err = w.furnish(w.Ctx, now)
	if failed := <-recorded; failed != nil {
		return failed
	}
	w.act(w.clock)
	w.act(w.answer)
	return err
}

// act runs f in a goroutine that ends with the session's context, and that the
// session's end waits for.
func (w *session) act(f func()) {
	w.acts.Add(1)
	go func() {
		defer w.acts.Done()
		f()
	}()
}

// answer serves a tree to the programs in the sandbox that ask.
func (w *session) answer() {
	if w.serves == nil {
		return
	}
	for {
		conn, err := w.box.Accept(w.Ctx)
		if err != nil {
			return
		}
		w.act(func() { w.serve(conn) })
	}
}

func (w *session) serve(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(w.Ctx, func() { conn.Close() })()
	w.serves(w.Ctx, w.Record().Token, conn)
}

// takeDown stops the sandbox and notes what it has used.
func (w *session) takeDown() {
	if w.output != nil {
		if err := w.output.confess(); err != nil {
			slog.Warn("the end of a session's output is not recorded", "agent", w.s.config.Agent, "session", w.N, "err", err)
		}
	}
	w.mu.Lock()
	box := w.box
	w.mu.Unlock()
	if box == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(w.Ctx), removeTimeout, fsys.E(fsys.Timeout, "the provider does not answer"))
	defer cancel()
	err := box.Stop(ctx)
	if err != nil {
		slog.Warn("a sandbox was not stopped", "agent", w.s.config.Agent, "session", w.N, "err", err)
	}
	u, err := box.Usage(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.box = nil
	if err == nil {
		w.used = usageOf(u)
	}
}

// commandsInTurn runs the commands of the request.
func (w *session) commandsInTurn(ctx context.Context) error {
	var first error
	for i := range w.plan.req.Commands {
		c := &w.plan.req.Commands[i]
		p := &process{cmd: w.command(c), out: w.output, alike: stdout}
		if c.Stdin != nil && c.Stdin.Text != nil {
			p.stdin = stringReader(*c.Stdin.Text)
		}
		o, err := w.perform(ctx, p)
		o.Command = c.String()
		if failed := w.noteEnd(o); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
		if err := o.failed(i + 1); err != nil && first == nil {
			first = err
		}
		if first != nil && !w.plan.req.GoOn {
			break
		}
	}
	return first
}

// noteEnd records how a command ended.
func (w *session) noteEnd(o outcome) error {
	return w.s.st.Update(context.WithoutCancel(w.Ctx), func(tx store.Store) error {
		if err := w.output.keep(tx); err != nil {
			return err
		}
		return w.s.ledger.Change(w.Ctx, tx, w, func(r *record) {
			r.Results = append(r.Results, o)
			r.Lost += o.Lost
		})
	})
}

// command is c as the sandbox is told it.
func (w *session) command(c *command) sandboxes.Command {
	dir := w.plan.req.Workdir
	if r := w.plan.req.Repo; r != nil && !path.IsAbs(dir) {
		dir = path.Join(r.workdir(), dir)
	}
	if c.Workdir != "" {
		if dir = path.Join(dir, c.Workdir); path.IsAbs(c.Workdir) {
			dir = c.Workdir
		}
	}
	cmd := sandboxes.Command{
		Argv: c.argv(), Dir: dir, TTY: (*sandboxes.Size)(c.TTY),
		Timeout: seconds(w.plan.timeOf(c)),
		Env:     w.env(c.Env),
	}
	if c.TTY != nil && c.Time == 0 {
		cmd.Timeout = 0 // a person's terminal ends with the session
	}
	return cmd
}

// env is the environment of commands, besides what the sandbox gives them.
func (w *session) env(own map[string]string) []string {
	p := &w.plan.policy
	name, mail := w.s.config.Agent+p.GitSuffix, w.s.config.Agent+"@"+p.GitDomain
	env := []string{
		"AGENT9_AGENT=" + w.s.config.Agent, "AGENT9_SESSION=" + text(w.N),
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail,
	}
	for _, k := range slices.Sorted(maps.Keys(w.plan.req.Env)) {
		if v := w.plan.req.Env[k]; v.Secret == "" {
			env = append(env, k+"="+v.Text)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(own)) {
		env = append(env, k+"="+own[k])
	}
	return env
}

// envFile is what a program in the sandbox is told of where it is.
type envFile struct {
	Agent     string `json:"agent"`
	Session   int64  `json:"session"`
	Balance   *int64 `json:"balance_microusd"` // null: there is no limit
	Workspace string `json:"workspace"`
	Skills    string `json:"skills,omitempty"`
	// Socket speaks 9P, and Address is the same as AGENT9_ADDR.
	Socket  string `json:"socket,omitempty"`
	Address string `json:"address,omitempty"`
	Helper  string `json:"helper,omitempty"`
	Expires string `json:"expires"`
}

const envName = "env.json"

// furnish writes the files that are there before the first command.
func (w *session) furnish(ctx context.Context, up time.Time) error {
	where := w.box.Where()
	env := envFile{
		Agent: w.s.config.Agent, Session: w.N, Workspace: where.Workspace, Skills: where.Skills,
		Socket: where.Socket, Helper: where.Helper, Expires: fsys.Stamp(up.Add(seconds(w.plan.policy.MaxLife))),
	}
	if where.Socket != "" {
		env.Address = "unix:" + where.Socket
	}
	if w.s.config.Account != nil {
		u, err := w.s.config.Account.Usage(ctx)
		if err != nil {
			return err
		}
		env.Balance = (*int64)(u.Left)
	}
	root, err := w.box.Files(ctx)
	if err != nil {
		return err
	}
	if err := put(ctx, root, where, envName, fsys.Line(env)); err != nil {
		return err
	}
	if w.plan.req.Repo != nil {
		return nil // its files are first
	}
	return w.putFiles(ctx)
}

// putFiles writes those of the request.
func (w *session) putFiles(ctx context.Context) error {
	root, err := w.box.Files(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.plan.req.Files)) {
		var data []byte
		if c := w.plan.req.Files[name]; c != nil {
			data = *c
		}
		if err := put(ctx, root, w.box.Where(), name, data); err != nil {
			return err
		}
	}
	return nil
}

// put writes a file below the workspace.
func put(ctx context.Context, root fsys.Node, where sandboxes.Where, name string, data []byte) error {
	below, ok := where.Path(name)
	if !ok {
		return fsys.E(fsys.Invalid, "the file "+name+" is not in the sandbox")
	}
	err := putAt(ctx, root, below, data)
	return fsys.Wrap(fsys.Unavailable, "the file "+name, err)
}

func putAt(ctx context.Context, root fsys.Node, name string, data []byte) error {
	dir, err := makeAll(ctx, root, path.Dir(name))
	if err != nil {
		return err
	}
	_, h, err := fsys.OpenCreate(ctx, dir, path.Base(name), 0o644, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	for off := 0; off < len(data) && err == nil; {
		var n int
		n, err = fsys.WriteAt(ctx, h, data[off:], int64(off))
		off += n
	}
	if err != nil {
		h.Close()
		return err
	}
	return fsys.Finish(ctx, h)
}

// makeAll walks to dir and makes the directories that are not there.
func makeAll(ctx context.Context, n fsys.Node, dir string) (fsys.Node, error) {
	if dir == "." {
		return n, nil
	}
	parent, err := makeAll(ctx, n, path.Dir(dir))
	if err != nil {
		return nil, err
	}
	next, err := fsys.Walk(ctx, parent, path.Base(dir))
	if missing(err) {
		next, err = fsys.Mkdir(ctx, parent, path.Base(dir), fs.FileMode(0o755))
	}
	return next, err
}

// SandboxName is the name of the sandbox of session n of owner.
func SandboxName(owner string, n int64) string { return fmt.Sprintf("%s.%d", owner, n) }

// ofSnapshot ends the name of the sandbox that a session's workspace is copied
// to.
const ofSnapshot = ".snapshot"

// ParseSandboxName returns whose sandbox has this name; false if it is none of
// a session.
func ParseSandboxName(name string) (owner string, n int64, ok bool) {
	owner, number, ok := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(name, ofSnapshot), ofClone), ".")
	n, err := strconv.ParseInt(number, 10, 64)
	return owner, n, ok && err == nil
}

// owns reports whether the sandbox of this name is the agent's. An id in a
// record is not enough: records can come from elsewhere.
func (s *Service) owns(name string) bool {
	owner, _, ok := ParseSandboxName(name)
	return ok && owner == s.config.Owner
}
