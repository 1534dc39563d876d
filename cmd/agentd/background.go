package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

// readyVariable is set for a daemon in the background: file 3 is then a pipe on
// which it says that it serves.
const readyVariable = "AGENTD_READY"

// logName is the file in the data directory that has what a daemon in the
// background says, and maxLog how large it may be when one begins: one that is
// larger is kept as agentd.log.1.
const (
	logName = "agentd.log"
	maxLog  = 16 << 20
)

// inBackground reports whether this process is the daemon that another one
// started for --background.
func inBackground() bool { return os.Getenv(readyVariable) != "" }

// readiness returns what says, once, that the daemon serves.
func readiness() (ready func()) {
	if !inBackground() {
		return func() {}
	}
	os.Unsetenv(readyVariable)
	syscall.CloseOnExec(3)
	pipe := os.NewFile(3, "ready")
	return func() {
		io.WriteString(pipe, "\n")
		pipe.Close()
	}
}

// background starts this program again, with the same arguments, as the leader
// of a session of its own, so that it outlives the terminal. It returns when
// that serves, or with why it does not.
func background(ctx context.Context, out io.Writer, data string) error {
	if os.Getenv("NOTIFY_SOCKET") != "" || os.Getenv("LISTEN_FDS") != "" {
		return usage(fsys.E(fsys.Invalid, "a service manager started this, and wants the daemon itself; leave --background out"))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, begin, err := openLog(data)
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the log of a daemon in the background", err)
	}
	defer log.Close()
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), readyVariable+"=3")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{say}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	say.Close()
	if err != nil {
		return err
	}
	serves := make(chan bool, 1)
	go func() { // ends when the daemon serves, or is gone
		n, _ := said.Read(make([]byte, 1))
		serves <- n > 0
	}()
	select {
	case ok := <-serves:
		if ok {
			fmt.Fprintf(out, "%sin the background as process %d; its log is %s\n", saidSince(log, begin, news), cmd.Process.Pid, log.Name())
			return nil
		}
	case <-ctx.Done():
		cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	why := strings.TrimPrefix(strings.TrimSpace(saidSince(log, begin, failure)), "agentd: ")
	if why == "" {
		why = fmt.Sprintf("it ended without a word (%v); see %s", cmd.ProcessState, log.Name())
	}
	err = fsys.E(fsys.Unavailable, why)
	if cmd.ProcessState.ExitCode() == 2 {
		return usage(err)
	}
	return err
}

// openLog opens the log in data to be added to, and says where its end is.
func openLog(data string) (log *os.File, end int64, err error) {
	if data, err = filepath.Abs(data); err == nil {
		err = os.MkdirAll(data, 0o700)
	}
	if err != nil {
		return nil, 0, err
	}
	name := filepath.Join(data, logName)
	if info, err := os.Stat(name); err == nil && info.Size() > maxLog {
		err = os.Rename(name, name+".1")
		if err != nil {
			return nil, 0, err
		}
	}
	if log, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return nil, 0, err
	}
	end, err = log.Seek(0, io.SeekEnd)
	return log, end, err
}

// What a person is told of the log.
var (
	news    = regexp.MustCompile("^listening on | level=WARN ")
	failure = regexp.MustCompile("^agentd: ")
)

// saidSince returns the lines after off that are such.
func saidSince(log *os.File, off int64, such *regexp.Regexp) string {
	b, _ := io.ReadAll(io.NewSectionReader(log, off, 1<<20))
	var found strings.Builder
	for line := range bytes.Lines(b) {
		if such.Match(line) {
			found.WriteString(plain.Line(strings.TrimSuffix(string(line), "\n")) + "\n")
		}
	}
	return found.String()
}
