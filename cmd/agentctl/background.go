package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
)

// readyVariable is set for the process in the background: file 3 is then a
// pipe on which it says that the mount is up, or why it is not.
const readyVariable = "AGENTCTL_READY"

// background starts this program again as what serves the mount at dir, and
// returns when the mount is up.
func background(c *cli.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env, err := environment(c)
	if err != nil {
		return err
	}
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	args := []string{"mount", "--foreground"}
	if c.Bool("allow-other") {
		args = append(args, "--allow-other")
	}
	cmd := exec.Command(self, append(append(args, "--", dir), c.Args().Slice()[1:]...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{say}
	detach(cmd)
	err = cmd.Start()
	say.Close()
	if err != nil {
		return err
	}
	word := make(chan string, 1)
	go func() { // ends when the child has said something, or is gone
		s, _ := bufio.NewReader(said).ReadString('\n')
		word <- s
	}()
	select {
	case s := <-word:
		return understood(s)
	case <-c.Done():
		cmd.Process.Signal(os.Interrupt)
		return context.Cause(c.Context)
	}
}

// environment repeats the global flags for the process in the background,
// which has another directory, and whose arguments everybody can see.
func environment(c *cli.Context) ([]string, error) {
	where := c.String("addr")
	if where == "" {
		where = addr.String("unix", addr.DefaultSocket())
	}
	network, address, err := addr.Parse(where)
	if err != nil {
		return nil, usagef("%s", fsys.ReasonOf(err))
	}
	if network == "unix" {
		if address, err = filepath.Abs(address); err != nil {
			return nil, err
		}
	}
	env := []string{readyVariable + "=1", "AGENT9_ADDR=" + addr.String(network, address), "AGENT9_TOKEN=" + c.String("token")}
	if c.Bool("tls") {
		env = append(env, "AGENT9_TLS=true")
	}
	for flag, variable := range tlsVariables {
		if file := c.String(flag); file != "" {
			if file, err = filepath.Abs(file); err != nil {
				return nil, err
			}
			env = append(env, variable+"="+file)
		}
	}
	return env, nil
}

// mounted is what the process in the background says when the mount is up.
const mounted = "mounted"

func understood(s string) error {
	switch s = strings.TrimSuffix(s, "\n"); s {
	case mounted:
		return nil
	case "":
		return errors.New("the process that was to serve the mount ended without a word")
	}
	name, text, _ := strings.Cut(s, " ")
	status, err := strconv.Atoi(name)
	if err != nil {
		return errors.New(s)
	}
	return &told{status, text}
}

// told is a failure that another process told.
type told struct {
	status int
	text   string
}

func (t *told) Error() string { return t.text }

// A ready tells the process that waits how mounting went; once.
type ready struct{ w io.WriteCloser }

func readiness() *ready {
	if os.Getenv(readyVariable) == "" {
		return &ready{}
	}
	os.Unsetenv(readyVariable)
	return &ready{os.NewFile(3, "ready")}
}

func (r *ready) tell(err error) {
	if r.w == nil {
		return
	}
	s := mounted
	if err != nil {
		s = fmt.Sprintf("%d %s", statusOf(context.Background(), err), oneLine(words(err)))
	}
	io.WriteString(r.w, s+"\n")
	r.w.Close()
	r.w = nil
}
