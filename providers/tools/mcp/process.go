//go:build unix

package mcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"agent9/providers/scrub"
	"agent9/providers/tools"
)

// grace is how long a program has to end, each time that it is told to.
const grace = 500 * time.Millisecond

// inherited are the variables of this process that a program is given. Others
// may be keys.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ"}

// A process is a program, the leader of a process group.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	said  tail          // on standard error
	ended chan struct{} // closed when it, and its group, is gone
	once  sync.Once
}

// start starts a program; mark is a variable for its environment, or empty.
func start(spec tools.Spec, mark string) (*process, error) {
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p := &process{cmd: exec.Command(spec.Command[0], spec.Command[1:]...), out: out, ended: make(chan struct{})}
	p.said.hide = spec.Hidden.Stream()
	p.cmd.Dir = spec.Dir
	if p.cmd.Dir == "" {
		p.cmd.Dir = "/"
	}
	p.cmd.Env = environment(spec.Env)
	if mark != "" {
		p.cmd.Env = append(p.cmd.Env, mark)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, &p.said
	p.cmd.WaitDelay = grace
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	go func() { // until the program has ended
		p.cmd.Wait()
		p.signal(syscall.SIGKILL)
		out.SetReadDeadline(time.Now().Add(grace)) // a process that has left the group may keep it open
		close(p.ended)
	}()
	return p, nil
}

func environment(more map[string]string) []string {
	env := []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}

// signal sends sig to the group.
func (p *process) signal(sig syscall.Signal) { syscall.Kill(-p.cmd.Process.Pid, sig) }

// close ends the program, at once if ctx has ended, and waits until it has.
func (p *process) close(ctx context.Context) {
	p.once.Do(func() { p.in.Close() })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		timer := time.NewTimer(grace)
		select {
		case <-p.ended:
		case <-ctx.Done():
			p.signal(syscall.SIGKILL)
		case <-timer.C:
			p.signal(sig)
		}
		timer.Stop()
	}
	<-p.ended
}

// over reports whether the program has ended. One whose output has ended is
// about to.
func (p *process) over() bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// fate says how the program ended, and what it said last.
func (p *process) fate() string {
	<-p.ended
	how := "ended"
	state := p.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		how = "was killed by signal " + ws.Signal().String()
	} else if code := state.ExitCode(); code != 0 {
		how = fmt.Sprintf("ended with status %d", code)
	}
	if said := p.said.String(); said != "" {
		how += ": " + said
	}
	return how
}

// tail keeps the last of what is written to it, without secrets.
type tail struct {
	mu   sync.Mutex
	hide *scrub.Stream
	text []byte
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, t.hide.Next(p)...)
	if more := len(t.text) - tailBytes; more > 0 {
		t.text = append(t.text[:0], t.text[more:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, t.hide.End()...)
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), ""))
}
