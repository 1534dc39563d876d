//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// endUnread ends the program, as a write would, when w is a pipe whose reader is
// gone: what follows a stream may have nothing to write for hours. stop lets go
// of w.
func endUnread(w io.Writer) (stop func()) {
	f, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return func() {}
	}
	const look = 500 // milliseconds
	stopped := make(chan struct{})
	pipe := []unix.PollFd{{Fd: int32(f.Fd())}} // with no events asked for: errors and hang-ups only
	go func() {
		for {
			n, err := unix.Poll(pipe, look)
			select {
			case <-stopped:
				return
			default:
			}
			switch {
			case n > 0:
				os.Exit(128 + int(unix.SIGPIPE)) // as a shell shows it
			case err != nil && err != unix.EINTR:
				return
			}
		}
	}()
	return func() { close(stopped) }
}
