package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startLimit is how long a server may take until it can be dialled.
const startLimit = time.Minute

// A process is a server that runs.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	log    string
}

// launch starts a program whose output goes to a file, and returns when it is
// ready.
func launch(ctx context.Context, cmd *exec.Cmd, log string, ready func() error) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{}), log: log}
	go func() { // ends with the process
		cmd.Wait()
		close(p.exited)
	}()
	if err := p.await(ctx, ready); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// listens is the readiness of a server that can be dialled.
func listens(network, address string) func() error {
	return func() error {
		nc, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		return nc.Close()
	}
}

func (p *process) await(ctx context.Context, ready func() error) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	exited := p.exited
	for end := time.After(startLimit); ; {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-exited:
			if p.cmd.ProcessState.Success() { // 9pfuse leaves another process that serves
				exited = nil
				continue
			}
			said, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s has ended: %v\n%s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, said)
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fmt.Errorf("%s is not ready: %w", filepath.Base(p.cmd.Path), err)
		}
	}
}

// end ends the process, in order if it minds a signal.
func (p *process) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// resident returns how many bytes of memory the process has, by /proc.
func (p *process) resident() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(b))[1], 64)
	return pages * float64(os.Getpagesize()), err
}

// spent returns how much processor time the threads of the process have had;
// zero where the system does not tell.
func (p *process) spent() (all time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	for _, t := range threads {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // it has ended
		}
		ran, _, _ := strings.Cut(string(b), " ")
		n, _ := strconv.ParseInt(ran, 10, 64)
		all += time.Duration(n)
	}
	return all
}

// goBuild builds a command of the module around, or of one that it requires.
func goBuild(ctx context.Context, to, path string) (bin string, err error) {
	bin = filepath.Join(to, filepath.Base(path))
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build %s: %v\n%s", path, err, out)
	}
	return bin, nil
}
