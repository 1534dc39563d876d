//go:build unix

package box

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// maxCommands is how many commands there may be at once.
const maxCommands = 1000

// beginAtOnce is how many commands begin at a time: that may need threads.
const beginAtOnce = 4

// commands is run/.
type commands struct {
	where  sandboxes.Where
	reaper Reaper
	mark   string // tells this box's commands from all others
	env    []string

	running sync.WaitGroup // commands, and what reads what they left behind
	turns   chan struct{}  // held by a command that begins
	looking sync.Mutex     // held by who looks at all processes
	killing sync.Mutex     // held while all are killed

	mu     sync.Mutex
	last   uint64
	byName map[string]*command
	closed bool
	left   map[*os.File]bool // drained, as no command reads them
}

func newCommands(where sandboxes.Where, reaper Reaper) *commands {
	c := &commands{where: where, reaper: reaper, mark: rand.Text(), turns: make(chan struct{}, beginAtOnce), byName: map[string]*command{}, left: map[*os.File]bool{}}
	c.env = c.baseEnv(os.Environ())
	return c
}

// baseEnv is what every command has: what the box was given, and what says
// where things are.
func (c *commands) baseEnv(env []string) []string {
	path := cmp.Or(lookup(env, "PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if c.where.Helper != "" {
		path += ":" + filepath.Dir(c.where.Helper)
	}
	env = append(slices.Clone(env), "PATH="+path, "HOME="+c.where.Home, "TMPDIR="+c.where.Tmp, "PWD="+c.where.Workspace)
	if c.where.Socket != "" {
		env = append(env, "AGENT9_ADDR=unix:"+c.where.Socket)
	}
	return env
}

// lookup returns the last value of key in env.
func lookup(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// environ returns base and more, each key once: the last.
func environ(base, more []string) []string {
	var env []string
	seen := map[string]bool{}
	for _, kv := range slices.Backward(slices.Concat(base, more)) {
		key, _, ok := strings.Cut(kv, "=")
		if !ok || key == "" || seen[key] || strings.ContainsRune(kv, 0) {
			continue
		}
		seen[key] = true
		env = append(env, kv)
	}
	slices.Reverse(env)
	return env
}

func (c *commands) root() fsys.Node {
	return fsys.NewTableWith(c, fsys.Entry{Name: "new", Node: &fsys.Call{Do: c.do}})
}

func (c *commands) do(_ context.Context, req []byte) ([]byte, error) {
	var order sandboxes.Order
	if err := json.Unmarshal(req, &order); err != nil || len(order.Argv) == 0 {
		return nil, fsys.E(fsys.Invalid, "the order makes no sense")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.byName) >= maxCommands {
		return nil, fsys.E(fsys.Busy, "there are too many commands")
	}
	c.last++
	number := strconv.FormatUint(c.last, 10)
	cmd := newCommand(c, number, order)
	c.byName[number] = cmd
	c.running.Go(cmd.run)
	return []byte(number + "\n"), nil
}

func (c *commands) Walk(_ context.Context, name string) (fsys.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd, ok := c.byName[name]; ok {
		return cmd.root, nil
	}
	return nil, fsys.NotExist
}

func (c *commands) List(context.Context) ([]fsys.Entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var entries []fsys.Entry
	for name, cmd := range c.byName {
		entries = append(entries, fsys.Entry{Name: name, Node: cmd.root})
	}
	return entries, nil
}

func (c *commands) forget(number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byName, number)
}

// killAll kills every command, and all that they left behind, because of
// reason. What is to begin meanwhile begins afterwards, and is not killed.
func (c *commands) killAll(reason string) {
	c.killing.Lock()
	defer c.killing.Unlock()
	for range beginAtOnce {
		c.turns <- struct{}{}
		defer func() { <-c.turns }()
	}
	c.mu.Lock()
	for _, cmd := range c.byName {
		cmd.because(reason)
	}
	c.mu.Unlock()
	mark := envMark + "=" + c.mark
	c.signal(syscall.SIGKILL, func(p process) bool { return c.reaper.adopted(p) || hasMark(p.pid, mark) })
}

// close kills every command, and all that they left behind, and waits.
func (c *commands) close() {
	c.mu.Lock()
	c.closed = true
	all := make([]*command, 0, len(c.byName))
	for _, cmd := range c.byName {
		all = append(all, cmd)
	}
	c.mu.Unlock()
	for _, cmd := range all {
		cmd.abandon()
	}
	c.killAll(sandboxes.ReasonKilled)
	c.mu.Lock()
	for f := range c.left {
		f.Close()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// envMark is the variable by which a command's descendants are known that have
// made themselves independent of it.
const envMark = "AGENT9_RUN"

// maxLeft is how many files are read that commands left open behind them.
const maxLeft = 128

// discard reads f, which something that outlived its command may write to, for
// nobody: so that it goes on.
func (c *commands) discard(f *os.File) {
	c.mu.Lock()
	if c.closed || len(c.left) >= maxLeft {
		c.mu.Unlock()
		f.Close()
		return
	}
	c.left[f] = true
	c.running.Go(func() {
		buf := make([]byte, 4096)
		for {
			if _, err := f.Read(buf); err != nil {
				break
			}
		}
		f.Close()
		c.mu.Lock()
		delete(c.left, f)
		c.mu.Unlock()
	})
	c.mu.Unlock()
}
