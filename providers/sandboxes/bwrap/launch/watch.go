//go:build linux

package launch

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Watch measures a directory from outside of the sandbox, as one who sees all
// of it; see package box.
type Watch struct {
	Args []string `json:"args"` // of this program
	Dir  string   `json:"dir"`  // is its file 3
	Out  int      `json:"out"`  // this file of the launch is its standard output
}

// start begins to measure, until the sandbox or whoever listens ends.
func (w *Watch) start() error {
	if w == nil {
		return nil
	}
	dir, err := os.Open(w.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	unix.CloseOnExec(w.Out)
	cmd := exec.Command("/proc/self/exe", w.Args...)
	cmd.ExtraFiles = []*os.File{dir}
	cmd.Stdout = os.NewFile(uintptr(w.Out), "measured")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}
