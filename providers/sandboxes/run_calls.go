package sandboxes

import (
	"context"
	"net"
	"strconv"
	"strings"

	"agent9/fsys"
)

// listen accepts what programs in the sandbox dial, one after another, until
// the run ends. What nobody takes is kept waiting, and no other accepted.
func (r *run) listen() {
	h, err := r.root.OpenPath(r.ctx, "calls/new", fsys.Read)
	if err != nil {
		return // the box has no socket
	}
	buf := make([]byte, 32)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(r.ctx, h, buf, off)
		if err != nil || n == 0 {
			return
		}
		off += int64(n)
		number := strings.TrimSpace(string(buf[:n]))
		if _, err := strconv.ParseUint(number, 10, 64); err != nil {
			return
		}
		conn, err := r.answer(number)
		if err != nil {
			continue // it has hung up
		}
		select {
		case r.calls <- conn:
		case <-r.ctx.Done():
			conn.Close()
			return
		}
	}
}

// answer opens a call and returns a connection that is as good as the one
// inside. What is copied ends when either end hangs up.
func (r *run) answer(number string) (net.Conn, error) {
	h, err := r.root.OpenPath(r.ctx, "calls/"+number+"/data", fsys.Read|fsys.Write)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(r.ctx)
	hungUp := func() {
		cancel()
		theirs.Close()
	}
	stop := context.AfterFunc(ctx, func() { theirs.Close() })
	r.spawn(func() { // from inside
		defer hungUp()
		buf := make([]byte, 64<<10)
		for off := int64(0); ; {
			n, err := fsys.ReadAt(ctx, h, buf, off)
			if err != nil || n == 0 {
				return
			}
			off += int64(n)
			if _, err := theirs.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	r.spawn(func() { // to inside
		defer h.Close()
		defer stop()
		defer hungUp()
		buf := make([]byte, 64<<10)
		for off := int64(0); ; {
			n, err := theirs.Read(buf)
			if err != nil {
				return
			}
			if _, err := fsys.WriteAt(ctx, h, buf[:n], off); err != nil {
				return
			}
			off += int64(n)
		}
	})
	return ours, nil
}
