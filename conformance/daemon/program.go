package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/programs"
	"agent9/providers/programs/exec"
)

// programVar makes the test's own binary be an agent's program, that does one
// of deeds.
const programVar = "TEST_TICK"

// A worker is such a program in a tick.
type worker struct {
	ctx     context.Context
	ns      fsys.Node
	trigger programs.Trigger
	id      string // of the message
	from    string
	body    string
}

var deeds = map[string]func(w *worker) error{
	// Passes a token on: "N next next …" is sent as N-1 to the first of them.
	"relay": func(w *worker) error {
		free, err := w.alone()
		if err != nil {
			return err
		}
		defer free()
		if err := w.note("state/log", w.from+" "+w.id); err != nil {
			return err
		}
		f := strings.Fields(w.body)
		n, _ := strconv.Atoi(f[0])
		if n == 0 {
			return nil
		}
		next := append(f[2:], f[1])
		return w.write("outbox/new", fmt.Sprintf(`{"to":%q,"body":%q}`, f[1], strings.Join(append([]string{strconv.Itoa(n - 1)}, next...), " ")))
	},
	// Copies what the watched file has.
	"copy": func(w *worker) error {
		b, err := fsys.ReadFile(w.ctx, w.ns, "goals/plan")
		if err != nil {
			return err
		}
		return programs.Save(w.ctx, w.ns, "state/seen", b)
	},
	// Writes what set it off.
	"note": func(w *worker) error {
		what := string(w.trigger.Cause) + " " + w.trigger.Text + w.trigger.Path + w.body
		if w.trigger.Alarm != nil {
			what += w.trigger.Alarm.Text
		}
		return w.note("state/log", what)
	},
	// Does a lot and fails.
	"spoil": func(w *worker) error {
		err := errors.Join(w.note("state/log", "spoilt"), w.note("state/new", "spoilt"),
			w.write("outbox/new", `{"to":"bob","body":"spoilt"}`), w.write("ctl", "alarm +1h spoilt"), w.write("ctl", "cancel 1"))
		if err != nil {
			fmt.Println(err)
		}
		return errors.New("on purpose")
	},
	// Takes a lock, and the time that it is told.
	"slow": func(w *worker) error {
		free, err := w.alone()
		if err != nil {
			return err
		}
		defer free()
		d, err := time.ParseDuration(w.body)
		if err != nil {
			return err
		}
		<-time.After(d)
		return w.note("state/log", w.id)
	},
	// Writes two files that are to be the same, and one that is to be gone.
	"pair": func(w *worker) error {
		for _, name := range []string{"half", "a", "b"} {
			if err := programs.Save(w.ctx, w.ns, "state/"+name, []byte(w.trigger.Tick)); err != nil {
				return err
			}
		}
		n, err := fsys.WalkPath(w.ctx, w.ns, "state/half")
		if err != nil {
			return err
		}
		return fsys.Remove(w.ctx, n)
	},
	"env": func(*worker) error {
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return nil
	},
	"mount": func(w *worker) error {
		at := os.Getenv(exec.MountVar)
		if _, err := os.ReadFile(filepath.Join(at, "status")); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(at, "state", "mounted"), []byte("yes\n"), 0o644)
	},
	"spend": func(w *worker) error {
		for range 3 {
			if _, err := fsys.Converse(w.ctx, w.ns, "compute/new", []byte(`{"messages":[{"role":"user","content":"x"}],"provider":"m","max_cost_microusd":600}`)); err != nil {
				return w.note("state/refused", err.Error())
			}
		}
		return nil
	},
}

// program does what an agent's program does, and returns its status.
func program(deed string) int {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	c, err := ninep.Dial(ctx, "unix", strings.TrimPrefix(os.Getenv(exec.AddrVar), "unix:"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	w := &worker{ctx: ctx}
	if w.ns, err = c.Attach(ctx, "", ""); err == nil {
		err = w.read(os.Stdin)
	}
	if err == nil {
		err = deeds[deed](w)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (w *worker) read(in io.Reader) error {
	if err := json.NewDecoder(in).Decode(&w.trigger); err != nil || w.trigger.Message == nil {
		return err
	}
	var m struct{ ID, From, Body string }
	err := json.Unmarshal(w.trigger.Message, &m)
	w.id, w.from, w.body = m.ID, m.From, m.Body
	return err
}

func (w *worker) write(path, text string) error {
	return fsys.WriteFile(w.ctx, w.ns, path, []byte(text))
}

// note adds a line to a file.
func (w *worker) note(path, line string) error {
	b, err := fsys.ReadFile(w.ctx, w.ns, path)
	if err != nil && !errors.Is(err, fsys.NotExist) {
		return err
	}
	return programs.Save(w.ctx, w.ns, path, append(b, line+"\n"...))
}

// alone takes a lock that no other tick of the same agent may have, and leaves
// a file if one has.
func (w *worker) alone() (free func(), err error) {
	f, err := os.OpenFile(filepath.Join(os.Getenv("TEST_DIR"), w.trigger.Agent+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		os.WriteFile(filepath.Join(os.Getenv("TEST_DIR"), "two-at-once"), []byte(w.trigger.Agent), 0o600)
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Config is that of an agent whose program does deed; more are further fields.
func (d *Daemon) Config(deed, more string) string {
	self, err := os.Executable()
	if err != nil {
		d.T.Fatal(err)
	}
	env, _ := json.Marshal(map[string]string{programVar: deed, "TEST_DIR": d.Dir, "GORACE": "atexit_sleep_ms=0"})
	return fmt.Sprintf(`{"program":{"exec":%q,"env":%s}%s}`, "exec "+self, env, more)
}

// Agent makes an agent with a config.
func (tr *Tree) Agent(name, config string) {
	tr.T.Helper()
	tr.Mkdir("agents", name)
	tr.Write("agents/"+name+"/config", config)
}

// Until waits until what is in an agent's file has the text, or what it says
// of itself, after one of its events.
func (tr *Tree) Until(agent, file, text string) string {
	tr.T.Helper()
	return tr.UntilThat(agent, func() (string, bool) {
		s, err := tr.TryRead("agents/" + agent + "/" + file)
		return s, err == nil && strings.Contains(s, text)
	}, file+" has "+text)
}

// UntilThat looks whenever something happens to the agent.
func (tr *Tree) UntilThat(agent string, there func() (string, bool), what string) string {
	tr.T.Helper()
	events := tr.Open("agents/"+agent+"/logs/trace", fsys.Read)
	b := make([]byte, 1<<16)
	ctx, cancel := context.WithTimeout(tr.T.Context(), Limit)
	defer cancel()
	for off := int64(0); ; {
		s, ok := there()
		if ok {
			events.Close()
			return s
		}
		n, err := fsys.ReadAt(ctx, events, b, off)
		if err != nil {
			tr.T.Fatalf("waiting until %s: %v; it is\n%s\n%s", what, err, s, tr.Read("agents/"+agent+"/status"))
		}
		off += int64(n)
	}
}

type TickLine struct {
	ID, Cause, Message, Outcome, Reason string
	Attempt                             int
	DurationMS                          int64 `json:"duration_ms"`
	Cost                                int64 `json:"cost_microusd"`
}

func Lines[T any](t *testing.T, text string) (list []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, v)
	}
	return list
}

// Ended returns the ticks when at least n have ended. A file shows what a tick
// changed before a stream grows by its record.
func (tr *Tree) Ended(agent string, n int) []TickLine {
	tr.T.Helper()
	tr.UntilThat(agent, func() (string, bool) {
		s, err := tr.TryRead("agents/" + agent + "/logs/ticks")
		return s, err == nil && strings.Count(s, "\n") >= n
	}, fmt.Sprint(n, " ticks have ended"))
	return tr.Ticks(agent)
}

func (tr *Tree) Ticks(agent string) []TickLine {
	tr.T.Helper()
	return Lines[TickLine](tr.T, tr.Read("agents/"+agent+"/logs/ticks"))
}
