// Package http runs an agent's program as a web service that is told of each
// trigger.
//
// The trigger is POSTed as JSON. An answer with a status of 200 to 299 is
// success, and its body, if there is one, says what the tick is to do:
//
//	{"messages": [{"to": "bob", "body": "hi"}],      each as for outbox/new
//	 "alarms":   [{"when": "+5m", "text": "look"}],  each as for ctl alarm
//	 "state":    {"seen": "17\n"},                   files in state/ and what they hold
//	 "log":      "what the tick's output is to show, or the answer to a prompt"}
//
// A redirect is not followed, as the request may have a secret; what the
// service repeats of that is taken out of its answer. Any other answer is a
// failure, and the trigger comes again.
package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/providers/scrub"
)

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 16 << 20

// New returns the service of spec as a program. Client may be nil.
func New(spec programs.HTTP, c *http.Client) programs.Program {
	client := http.Client{}
	if c != nil {
		client = *c
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &service{client, spec}
}

type service struct {
	client http.Client
	spec   programs.HTTP
}

// An answer says what a tick is to do.
type answer struct {
	Messages []json.RawMessage `json:"messages"`
	Alarms   []struct {
		When string `json:"when"`
		Text string `json:"text"`
	} `json:"alarms"`
	State map[string]string `json:"state"`
	Log   string            `json:"log"`
}

func failed(format string, args ...any) error {
	return &programs.Failure{Kind: programs.Failed, Reason: fmt.Sprintf(format, args...)}
}

func (s *service) Run(ctx context.Context, t programs.Trigger, env programs.Env) (out programs.Outcome, err error) {
	body, err := s.ask(ctx, t, env)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return out, err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return out, nil
	}
	var a answer
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return out, failed("the answer: %s", fsys.InJSON(err))
	}
	return out, a.perform(ctx, env)
}

func (a *answer) perform(ctx context.Context, env programs.Env) error {
	if _, err := io.WriteString(env.Output, a.Log); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.State)) {
		if err := programs.Save(ctx, env.NS, "state/"+name, []byte(a.State[name])); err != nil {
			return fsys.Wrap(fsys.Invalid, "the answer's state/"+name, err)
		}
	}
	for _, m := range a.Messages {
		if err := fsys.WriteFile(ctx, env.NS, "outbox/new", m); err != nil {
			return fsys.Wrap(fsys.Invalid, "the answer's message", err)
		}
	}
	for _, alarm := range a.Alarms {
		if strings.ContainsAny(alarm.When+alarm.Text, "\n\r") {
			return failed("the answer's alarm has more than one line")
		}
		if err := fsys.WriteFile(ctx, env.NS, "ctl", []byte("alarm "+alarm.When+" "+alarm.Text)); err != nil {
			return fsys.Wrap(fsys.Invalid, "the answer's alarm", err)
		}
	}
	return nil
}

func (s *service) ask(ctx context.Context, t programs.Trigger, env programs.Env) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.spec.URL, bytes.NewReader(fsys.Line(t)))
	if err != nil {
		return nil, failed("the request is invalid: check the url")
	}
	req.Header.Set("Content-Type", "application/json")
	for name, v := range s.spec.Headers {
		req.Header.Set(name, v)
	}
	// The same trigger, or another attempt at it, can be told by this.
	req.Header.Set("X-Agent9-Tick", t.Agent+"/"+t.Tick)
	secret, err := s.sign(ctx, req, env)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, failed("asking %s: %s", req.URL.Host, plain(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, failed("%s answered %s: %s", req.URL.Host, secret.String(resp.Status), head(secret.Bytes(body)))
	case err != nil:
		return nil, failed("the answer of %s: %s", req.URL.Host, plain(err))
	case len(body) > maxAnswer:
		return nil, failed("the answer of %s is longer than %d bytes", req.URL.Host, maxAnswer)
	}
	return secret.Bytes(body), nil
}

// sign adds the secret header, and returns what takes the secret out of the
// answer.
func (s *service) sign(ctx context.Context, req *http.Request, env programs.Env) (secret *scrub.Scrubber, err error) {
	sec := s.spec.Secret
	if sec == nil {
		return nil, nil
	}
	value, err := env.Secret(ctx, sec.Name, s.spec.URL)
	if err != nil {
		return nil, &programs.Failure{Kind: programs.Refused, Reason: "the secret " + sec.Name + ": " + plain(err)}
	}
	defer clear(value)
	header := sec.Header
	if header == "" {
		header = "Authorization"
	}
	req.Header.Set(header, sec.Prefix+string(value))
	return scrub.New(value), nil
}

// plain is the innermost message, which does not have the URL in it.
func plain(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// head is the beginning of what a server says of its failure.
func head(b []byte) string {
	const most = 200
	s := strings.ToValidUTF8(strings.Join(strings.Fields(string(b[:min(len(b), most)])), " "), "?")
	if s == "" {
		return "it said nothing"
	}
	return s
}
