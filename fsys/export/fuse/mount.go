//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// Mounted is a tree that is shown.
type Mounted struct {
	dir    string
	device atomic.Uint64 // of its files, as stat(2) has it
	tree   *tree
	cancel context.CancelFunc // ends every request
	served chan struct{}      // closed when the kernel has let go
	done   chan struct{}      // closed when nothing more will be served

	once sync.Once
	err  error // of the first Unmount
}

// Mount shows root at dir, which must be an empty directory, until Unmount,
// the end of ctx, or somebody's umount. The values of ctx hold for every
// operation.
//
// This process must not start a program whose working directory or open files
// are below dir: while a Go program forks, it may be unable to answer the kernel.
func Mount(ctx context.Context, root fsys.Node, dir string, opts Options) (*Mounted, error) {
	dir, err := mountPoint(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(ctx)
	if err != nil {
		return nil, err
	}
	if info.Kind != fsys.Directory {
		return nil, fsys.E(fsys.NotDir, "only a directory can be mounted")
	}
	values := context.WithoutCancel(ctx)
	if opts.Caller != "" {
		values = fsys.WithCaller(values, opts.Caller)
	}
	life, cancel := context.WithCancel(values)
	m := &Mounted{
		dir:    dir,
		tree:   newTree(life, root, opts),
		cancel: cancel,
		served: make(chan struct{}),
		done:   make(chan struct{}),
	}
	server, err := gofuse.NewServer(m.tree, dir, opts.mount())
	if err != nil {
		cancel()
		return nil, whyNot(err)
	}
	go m.serve(server, context.AfterFunc(ctx, func() { m.Unmount() }))
	if err := server.WaitMount(); err != nil {
		m.Unmount()
		return nil, whyNot(err)
	}
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) == nil {
		m.device.Store(uint64(st.Dev))
	}
	return m, nil
}

// serve answers the kernel until it lets go.
func (m *Mounted) serve(server *gofuse.Server, release func() bool) {
	server.Serve()
	release()
	close(m.served)
	m.Unmount() // what is left of it, if somebody else has unmounted
}

// Wait returns when the tree is no longer shown.
func (m *Mounted) Wait() { <-m.done }

// releaseIn is how long a busy mount is waited for, and how long the kernel.
const releaseIn = time.Second

// Unmount ends every operation that is under way, and takes the mount away. If
// after a second some program still uses it, it is taken out of sight all the
// same, and what that program does next with its files fails. Unmount may be
// called more than once.
func (m *Mounted) Unmount() error {
	m.once.Do(func() {
		defer close(m.done)
		m.cancel()
		m.err = m.detach()
		if !m.letGo() {
			abort(m.dir, m.device.Load())
			m.letGo()
		}
		m.tree.closeAll()
	})
	<-m.done
	return m.err
}

// detach unmounts, at last whether busy or not.
func (m *Mounted) detach() error {
	end := time.NewTimer(releaseIn)
	defer end.Stop()
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		select {
		case <-m.served:
			return nil
		default:
		}
		if err := detach(m.dir); err == nil || errors.Is(err, errNotMounted) {
			return nil
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-m.served:
		case <-end.C:
			abort(m.dir, m.device.Load())
			if err := detachLazily(m.dir); !errors.Is(err, errNotMounted) {
				return err
			}
			return nil
		}
		again.Stop()
	}
}

// letGo waits for the kernel to end the connection, and reports whether it did.
func (m *Mounted) letGo() bool {
	end := time.NewTimer(releaseIn)
	defer end.Stop()
	select {
	case <-m.served:
		return true
	case <-end.C:
		return false
	}
}

// Unmount takes away what Mount has mounted at dir, also in another process,
// and also if that process is gone.
func Unmount(dir string) error {
	dir, err := resolve(dir)
	if err != nil {
		return err
	}
	switch err := detach(dir); {
	case err == nil:
		return nil
	case errors.Is(err, errNotMounted):
		return fsys.E(fsys.Invalid, "agent9 is not mounted at "+dir)
	default:
		return fsys.Wrap(fsys.Busy, "a program still uses "+dir+", or has it as its working directory", err)
	}
}

func (o Options) owner() gofuse.Owner {
	if o.Owner != nil {
		return gofuse.Owner{Uid: o.Owner.UID, Gid: o.Owner.GID}
	}
	return *gofuse.CurrentOwner()
}

func (o Options) mount() *gofuse.MountOptions {
	mo := &gofuse.MountOptions{
		AllowOther:         o.AllowOther,
		FsName:             o.FsName,
		Name:               "agent9",
		MaxWrite:           1 << 20,
		MaxBackground:      64,
		DirectMount:        os.Geteuid() == 0,
		DisableXAttrs:      true,
		EnableLocks:        true,
		DisableReadDirPlus: !retriesStale,
		// open with O_TRUNC is one operation: the other way is a truncation
		// that locks the file first.
		ExtraCapabilities: gofuse.CAP_ATOMIC_O_TRUNC,
		Logger:            o.Debug,
		Debug:             o.Debug != nil,
	}
	if mo.FsName == "" {
		mo.FsName = "agent9"
	}
	if mo.Logger == nil {
		mo.Logger = log.New(io.Discard, "", 0) // it tells of every reply that came too late
	}
	mo.PanicHandler = func(v any) gofuse.Status {
		log.Printf("fuse: panic: %v\n%s", v, debug.Stack())
		return gofuse.EIO
	}
	if o.AllowOther {
		mo.Options = append(mo.Options, "default_permissions")
	}
	return mo
}
