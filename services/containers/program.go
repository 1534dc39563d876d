package containers

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/programs"
)

// Program returns the agent's program that runs as spec says: each tick is a
// session, which is removed when the tick is over. The command gets the
// trigger on its standard input; what it dials is the tick's namespace.
func (s *Service) Program(spec programs.Container, env map[string]string) programs.Program {
	return &boxed{s, spec, env}
}

type boxed struct {
	s    *Service
	spec programs.Container
	env  map[string]string
}

var _ programs.Program = (*boxed)(nil)

// boxRequest is what is asked of /
type boxRequest struct {
	Image    string            `json:"image,omitempty"`
	Provider string            `json:"provider,omitempty"`
	Workdir  string            `json:"workdir,omitempty"`
	Env      map[string]string `json:"env"`
	Limits   boxLimits         `json:"limits"`
	Commands []boxCommand      `json:"commands"`
}

type boxLimits struct {
	Time    int64 `json:"time_s,omitempty"`
	Memory  int64 `json:"memory_mb,omitempty"`
	Network bool  `json:"network"`
}

type boxCommand struct {
	Argv  []string `json:"argv"`
	Stdin string   `json:"stdin"`
}

// boxResult is what of a session's result says how the program ended.
type boxResult struct {
	State    string `json:"state"`
	Commands []struct {
		Signal string `json:"signal"`
		Reason string `json:"reason"`
	} `json:"commands"`
	Error *struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
	} `json:"error"`
}

// boxGrace is how long the end of a session is waited for whose tick is over.
const boxGrace = 30 * time.Second

func (b *boxed) Run(ctx context.Context, t programs.Trigger, env programs.Env) (programs.Outcome, error) {
	addr, err := env.Addr()
	if err != nil {
		return programs.Outcome{}, err
	}
	ctx = budget.With(fsys.WithCaller(ctx, fsys.Caller(b.s.config.Agent)), b.s.config.Account)
	n, err := b.s.Submit(ctx, b.request(ctx, t), dialled(addr))
	if err != nil {
		return programs.Outcome{}, programs.CannotRun("the container", err)
	}
	session, err := fsys.WalkPath(ctx, b.s.Root(), "sessions/"+strconv.FormatInt(n, 10))
	if err != nil {
		return programs.Outcome{}, err
	}
	defer b.clear(ctx, session)
	if err := b.follow(ctx, session, env.Output); err != nil {
		return programs.Outcome{}, err
	}
	result, err := fsys.ReadFile(ctx, session, "result")
	if err != nil {
		return programs.Outcome{}, err
	}
	return programs.Outcome{}, endOf(result)
}

func (b *boxed) request(ctx context.Context, t programs.Trigger) []byte {
	req := boxRequest{
		Image: b.spec.Image, Provider: b.spec.Provider, Workdir: b.spec.Workdir,
		Env:      map[string]string{"AGENT9_TICK": t.Tick, "AGENT9_CAUSE": string(t.Cause)},
		Limits:   boxLimits{Memory: b.spec.MemoryMB, Network: b.spec.Network},
		Commands: []boxCommand{{Argv: b.spec.Command, Stdin: string(fsys.Line(t))}},
	}
	for k, v := range b.env {
		req.Env[k] = v
	}
	if at, ok := ctx.Deadline(); ok { // so that the tick's own end is the first
		req.Limits.Time = int64(time.Until(at)/time.Second) + 2
	}
	return fsys.Line(req)
}

// follow passes on what the program prints, until the session has ended.
func (b *boxed) follow(ctx context.Context, session fsys.Node, to io.Writer) error {
	h, err := fsys.OpenPath(ctx, session, "output", fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, h, buf, off)
		off += int64(n)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case fsys.IsEOF(err), err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// clear ends the session, if it has not, and removes it.
func (b *boxed) clear(ctx context.Context, session fsys.Node) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boxGrace)
	defer cancel()
	if fsys.WriteFile(ctx, session, "ctl", []byte("kill\n")) == nil {
		fsys.ReadFile(ctx, session, "result")
	}
	fsys.Remove(ctx, session)
}

// endOf is nil if the result of a session says that its command did its work.
func endOf(result []byte) error {
	var r boxResult
	if err := json.Unmarshal(result, &r); err != nil {
		return fsys.Wrap(fsys.Internal, "the result of the container", err)
	}
	if r.State == string(Done) {
		return nil
	}
	reason := "the container ended as " + r.State
	if r.Error != nil && r.Error.Reason != "" {
		reason = strings.Replace(r.Error.Reason, "command 1", "the command", 1)
	}
	f := &programs.Failure{Kind: programs.Failed, Reason: reason}
	switch {
	case len(r.Commands) == 0:
		f.Kind = programs.Refused
	case r.Commands[0].Reason == "timeout":
		f.Kind = programs.TimedOut
	case r.Commands[0].Signal != "":
		f.Kind = programs.Killed
	}
	return f
}

// dialled connects who dials with the socket at addr, as agentctl takes it.
func dialled(addr string) Serve {
	return func(ctx context.Context, _ string, conn net.Conn) {
		var d net.Dialer
		to, err := d.DialContext(ctx, "unix", strings.TrimPrefix(addr, "unix:"))
		if err != nil {
			conn.Close()
			return
		}
		defer context.AfterFunc(ctx, func() { to.Close() })()
		done := make(chan struct{})
		go func() { // ends with either connection
			defer close(done)
			io.Copy(to, conn)
			to.Close()
		}()
		io.Copy(conn, to)
		conn.Close()
		<-done
		to.Close()
	}
}
