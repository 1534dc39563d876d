package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/programs"
	"agent9/store/files"
	"agent9/store/mem"
)

// A Deed is what a program under test does. Programs that run in the
// namespace do it by Do; others have their own way to the same end.
type Deed string

const (
	// Keep saves the trigger in state/trigger, sends a message, sets an
	// alarm, and adds a line to the output if it can. A prompt it answers
	// with its own text.
	Keep Deed = "keep"
	// Fail prints Why, if it can, and fails.
	Fail Deed = "fail"
	// Hang writes "begun" to ctl and does not end by itself.
	Hang Deed = "hang"
	// Flood prints without an end.
	Flood Deed = "flood"
	// Tell prints, and gives as the reason of its failure, all the secrets
	// that it can find.
	Tell Deed = "tell"
)

// Why is the reason that a failing program gives.
const Why = "the moon is full"

// Programs is a driver of programs, and what it is known to do.
type Programs struct {
	// New returns a program that does deed; nil if the driver's cannot. ns is
	// the namespace, for what plays a part outside.
	New func(t *testing.T, deed Deed, ns fsys.Node) programs.Program
	// Impossible is one that cannot be run.
	Impossible func(t *testing.T) programs.Program
	// Silent programs print nothing in a tick, only in answer to a prompt.
	Silent bool
	// Gone, if set, is asked after a program was cut off whether something of
	// it is left.
	Gone func(t *testing.T)
	// Bound is how soon a cut off program must be over; 0 means 10 s.
	Bound time.Duration
}

// programSecret is what no output and no error may have in it.
const programSecret = "c4nary-0f-a-program"

// SecretVar is a variable of the daemon's environment that has a key.
const SecretVar = "CANARY_API_KEY"

// TestPrograms checks that a driver keeps the contract of programs.Program.
func TestPrograms(t *testing.T, p Programs) {
	if p.Bound == 0 {
		p.Bound = 10 * time.Second
	}
	t.Setenv(SecretVar, programSecret)
	for _, rule := range programRules {
		t.Run(rule.name, func(t *testing.T) { rule.check(tick{T: t, p: p}) })
	}
}

var programRules = []struct {
	name  string
	check func(tick)
}{
	{"success", tick.success},
	{"a large trigger", tick.large},
	{"many at once", tick.many},
	{"failure", tick.failure},
	{"cut off", tick.cutOff},
	{"flood", tick.flood},
	{"secrets", tick.secrets},
	{"a prompt", tick.prompt},
	{"cannot be run", tick.impossible},
}

// A tick is one in which a program is tried.
type tick struct {
	*testing.T
	p Programs
}

// A desk is what a program works at, and what it left there.
type desk struct {
	root  fsys.Node
	env   programs.Env
	begun chan struct{} // closed by the order "begun"

	mu     sync.Mutex
	orders []string // written to ctl
	sent   []string
	out    bytes.Buffer
	limit  int
}

func (d *desk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out.Len()+len(p) > d.limit {
		return 0, programs.ErrFlooded
	}
	return d.out.Write(p)
}

func (d *desk) printed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

func (d *desk) order(_ context.Context, words []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orders = append(d.orders, string(words))
	if string(words) == "begun" {
		close(d.begun)
	}
	return nil, nil
}

func (d *desk) send(_ context.Context, message []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent = append(d.sent, string(message))
	return nil, nil
}

// desk returns an empty one, that is served until the test ends.
func (k tick) desk() *desk {
	tree, err := files.New(k.Context(), mem.New(), files.Options{})
	if err != nil {
		k.Fatal(err)
	}
	d := &desk{begun: make(chan struct{}), limit: 1 << 20}
	d.root = fsys.NewTable(
		fsys.Entry{Name: "state", Node: tree.Root()},
		fsys.Entry{Name: "ctl", Node: &fsys.Call{Do: d.order}},
		fsys.Entry{Name: "outbox", Node: fsys.NewTable(fsys.Entry{Name: "new", Node: &fsys.Call{Do: d.send}})},
	)
	d.env = programs.Env{
		NS:    d.root,
		Addr:  sync.OnceValues(func() (string, error) { return k.serve(d.root) }),
		Mount: func() (string, error) { return "", fsys.E(fsys.Unsupported, "nothing is mounted here") },
		Secret: func(_ context.Context, name, _ string) ([]byte, error) {
			if name != "hook" {
				return nil, fsys.E(fsys.NotExist, "there is no secret "+name)
			}
			return []byte(programSecret), nil
		},
		Output: d,
	}
	return d
}

func (k tick) serve(root fsys.Node) (string, error) {
	dir, err := os.MkdirTemp("", "") // whose path is short enough for a socket
	if err != nil {
		return "", err
	}
	k.Cleanup(func() { os.RemoveAll(dir) })
	at := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", at)
	if err != nil {
		return "", err
	}
	server := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: root}, nil
	}}
	go server.Serve(l) // until the Cleanup
	k.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), k.p.Bound)
		defer cancel()
		server.Shutdown(ctx)
	})
	return "unix:" + at, nil
}

// program returns what does deed at d.
func (k tick) program(deed Deed, d *desk) programs.Program {
	k.Helper()
	p := k.p.New(k.T, deed, d.root)
	if p == nil {
		k.Skip("programs of this kind cannot do that: " + string(deed))
	}
	return p
}

func (k tick) run(deed Deed, d *desk, t programs.Trigger) error {
	k.Helper()
	_, err := k.program(deed, d).Run(k.Context(), t, d.env)
	return err
}

var manual = programs.Trigger{Tick: "7", Agent: "alice", Cause: programs.Manual, Time: "2026-01-31T08:00:00Z", Attempt: 2, Text: "do \"it\"\t\u2028 & <that>"}

// kept checks that a program that keeps t has done so.
func (d *desk) kept(ctx context.Context, t programs.Trigger) error {
	b, err := fsys.ReadFile(ctx, d.root, "state/trigger")
	if err != nil {
		return err
	}
	var got programs.Trigger
	if err := json.Unmarshal(b, &got); err != nil {
		return err
	}
	if got, want := fsys.Line(got), fsys.Line(t); !bytes.Equal(got, want) {
		return fmt.Errorf("the program got the trigger %.300q of %d bytes, want %.300q of %d", got, len(got), want, len(want))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sent) != 1 || !strings.Contains(d.sent[0], `"bob"`) {
		return fmt.Errorf("it sent %q, want a message to bob", d.sent)
	}
	if len(d.orders) != 1 || strings.TrimSpace(d.orders[0]) != "alarm +5m look" {
		return fmt.Errorf("it ordered %q, want alarm +5m look", d.orders)
	}
	return nil
}

func (k tick) success() {
	d := k.desk()
	if err := k.run(Keep, d, manual); err != nil {
		k.Fatal(err)
	}
	if err := d.kept(k.Context(), manual); err != nil {
		k.Error(err)
	}
	if out := d.printed(); !k.p.Silent && !strings.Contains(out, "kept 7") {
		k.Errorf("the output is %q", out)
	}
}

// large has a message of 1 MiB, and each kind of trigger there is.
func (k tick) large() {
	body, err := json.Marshal(map[string]string{"id": "m", "body": strings.Repeat("long \x01é ", 1<<20/9)})
	if err != nil {
		k.Fatal(err)
	}
	for _, t := range []programs.Trigger{
		{Cause: programs.Message, Message: body},
		{Cause: programs.Timer, Alarm: &programs.Alarm{ID: "3", Text: "look", Due: "2026-01-31T08:00:00Z"}},
		{Cause: programs.Watch, Path: "goals/plan"},
	} {
		t.Tick, t.Agent, t.Time, t.Attempt = "7", "alice", manual.Time, 1
		d := k.desk()
		err := k.run(Keep, d, t)
		if err == nil {
			err = d.kept(k.Context(), t)
		}
		if err != nil {
			k.Errorf("%s: %v", t.Cause, err)
		}
	}
}

func (k tick) many() {
	var all sync.WaitGroup
	for i := range 8 {
		d, t := k.desk(), manual
		t.Tick, t.Agent = fmt.Sprint(i), fmt.Sprint("agent", i)
		p := k.program(Keep, d)
		all.Go(func() {
			_, err := p.Run(k.Context(), t, d.env)
			if err == nil {
				err = d.kept(k.Context(), t)
			}
			if err != nil {
				k.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
}

func (k tick) failure() {
	d := k.desk()
	err := k.run(Fail, d, manual)
	if err == nil {
		k.Fatal("a program that fails succeeded")
	}
	if kind := kindOf(err); kind != programs.Failed && kind != "" {
		k.Errorf("its failure %v is %q", err, kind)
	}
	if !strings.Contains(err.Error()+d.printed(), Why) {
		k.Errorf("neither the error %q nor the output %q says why", err, d.printed())
	}
}

// kindOf is what kind of failure err is; "" if it does not say.
func kindOf(err error) programs.Kind {
	var f *programs.Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

// cutOff ends a program when its time is over, and when its agent is stopped.
func (k tick) cutOff() {
	for _, why := range []error{programs.ErrTimedOut, errors.New("the agent was stopped")} {
		d := k.desk()
		p := k.program(Hang, d)
		ctx, cut := context.WithCancelCause(k.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := p.Run(ctx, manual, d.env)
			ended <- err
		}()
		select {
		case <-d.begun:
		case err := <-ended:
			k.Fatalf("it ended by itself: %v, and printed %q", err, d.printed())
		}
		cut(why)
		select {
		case err := <-ended:
			if !errors.Is(err, why) {
				k.Errorf("cut off because %v, it ended with %v", why, err)
			}
		case <-time.After(k.p.Bound):
			k.Fatalf("it did not end within %v", k.p.Bound)
		}
		if k.p.Gone != nil {
			k.p.Gone(k.T)
		}
	}
}

func (k tick) flood() {
	d := k.desk()
	d.limit = 100_000
	t := manual
	t.Cause, t.Prompt = programs.Asked, &programs.Prompt{Session: 1, Prompt: 1, Text: "much"}
	if err := k.run(Flood, d, t); !errors.Is(err, programs.ErrFlooded) {
		k.Errorf("a flood ended with %v", err)
	}
	if k.p.Gone != nil {
		k.p.Gone(k.T)
	}
}

func (k tick) secrets() {
	d := k.desk()
	err := k.run(Tell, d, manual)
	if err == nil {
		k.Error("a program that fails succeeded")
	}
	if said := fmt.Sprint(err) + d.printed(); strings.Contains(said, programSecret) {
		k.Errorf("a secret can be read in %q", said)
	}
}

func (k tick) prompt() {
	d := k.desk()
	t := manual
	t.Cause, t.Prompt = programs.Asked, &programs.Prompt{Session: 3, Prompt: 4, Text: "what\nis it?"}
	if err := k.run(Keep, d, t); err != nil {
		k.Fatal(err)
	}
	if out := d.printed(); !strings.Contains(out, t.Prompt.Text) {
		k.Errorf("the answer is %q", out)
	}
}

func (k tick) impossible() {
	t := manual
	t.Cause, t.Prompt = programs.Asked, &programs.Prompt{Session: 1, Prompt: 1, Text: "x"}
	_, err := k.p.Impossible(k.T).Run(k.Context(), t, k.desk().env)
	if kindOf(err) != programs.Refused || err.Error() == "" {
		k.Errorf("what cannot be run ended with %v, which is %q", err, kindOf(err))
	}
}

// Do performs a deed in a namespace.
func (deed Deed) Do(ctx context.Context, ns fsys.Node, t programs.Trigger, out io.Writer) error {
	switch deed {
	case Fail:
		fmt.Fprintln(out, Why)
		return errors.New(Why)
	case Hang:
		if err := fsys.WriteFile(ctx, ns, "ctl", []byte("begun")); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	case Flood:
		for line := bytes.Repeat([]byte("much "), 1000); ; {
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
	case Tell:
		fmt.Fprintln(out, strings.Join(os.Environ(), "\n"))
		return errors.New(os.Getenv(SecretVar))
	}
	if t.Prompt != nil {
		_, err := io.WriteString(out, t.Prompt.Text)
		return err
	}
	fmt.Fprintln(out, "kept", t.Tick)
	return errors.Join(
		programs.Save(ctx, ns, "state/trigger", fsys.Line(t)),
		fsys.WriteFile(ctx, ns, "outbox/new", []byte(`{"to":"bob","body":"kept"}`)),
		fsys.WriteFile(ctx, ns, "ctl", []byte("alarm +5m look")),
	)
}
