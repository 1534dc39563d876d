//go:build unix

// Package box is the program in a sandbox, as which cmd/a9 runs: it serves the
// sandbox as a file tree, in 9P2000.L on its standard input and output, to the
// daemon that the sandbox belongs to.
//
//	info             JSON: version of this protocol, system, where things are inside
//	run/new          Message: containers.Order as JSON; reply: the command's number
//	run/<n>/
//	    stdin        what is written to it, the command reads; closing it ends that
//	    out          Stream: what the command writes, in containers.AppendFrame's frames;
//	                 there is one reader, from the beginning, and the command waits for it
//	    wait         Stream: containers.Outcome as JSON, when the command has ended
//	    ctl          kill SIGNAL · resize ROWS COLS
//	calls/new        Stream: a read waits for a program that dials the agent's socket and
//	                 gives it a number (Plan 9's listen)
//	calls/<n>/data   Stream: the bytes of that connection, both ways
//	files/           the file tree of the sandbox
//
// Removing run/<n> kills the command with all its descendants and forgets it;
// removing calls/<n> hangs up. A command has ended when its first process has.
// What it leaves behind goes on, and may write where nobody reads, until the
// sandbox ends. The end of the standard input is the end of the sandbox: every
// process that the box has begun is killed.
//
// Where the driver asks for it, the box measures what the workspace has on its
// disk, once in a second or less often, or is told so by who measures from
// outside ([Measure]) and sees everything. When that is more than it may be and
// grows, every command is killed, and until it is less again files/ takes no
// more. Files without a name count while somebody has them open. What cannot be
// seen is more than may be: directories that cannot be read, the files of
// processes that hide them (PR_SET_DUMPABLE), files that are only mapped, or
// under way in a socket.
//
// # Links
//
// There are no symbolic links in files/: what one leads to is shown in its
// place. One that leads nowhere, out of a sandbox that is confined to a
// folder, or to a directory that was walked through on the way to it, is a
// plain file without permissions. So a walk through the tree ends; but who
// removes recursively through a link, removes what it leads to. Devices, pipes
// and sockets can be listed and not opened. /proc and /sys are empty.
//
// # Trust
//
// The programs in the sandbox may be hostile, and run as the same user as the
// box: it cannot be traced, takes no signals, needs no new threads when there
// are no more processes to be had, and its children are killed for want of
// memory before it is. In a sandbox that isolates, the box is the first process
// and outlives no other; else it adopts what its commands have left behind, and
// kills that at the end.
package box

import (
	"context"
	"net"
	"runtime"
	"sync"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/sandboxes"
)

// maxMessage is the largest message of 9P.
const maxMessage = 512 << 10

// Name is the subcommand of cmd/a9 that is the box.
const Name = "box"

// Serve serves the sandbox that setup describes to the daemon at the other end
// of conn, until that hangs up or ctx ends. Then it kills what it has begun,
// and returns.
func Serve(ctx context.Context, conn net.Conn, setup sandboxes.Setup, reaper Reaper) error {
	disk, err := openDisk(setup)
	if err != nil {
		return err
	}
	defer disk.close()
	calls, err := listen(setup.Where.Socket)
	if err != nil {
		return err
	}
	defer calls.close()
	commands := newCommands(setup.Where, reaper)
	defer commands.close()
	if setup.Disk > 0 {
		disk.quota = &quota{limit: setup.Disk, exceeded: func() { commands.killAll(sandboxes.ReasonDisk) }}
		watching, end := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { disk.quota.watch(watching, setup) })
		defer watch.Wait()
		defer end()
	}

	tree := fsys.NewTable(
		fsys.Entry{Name: "info", Node: fsys.JSON(func(context.Context) (sandboxes.Identity, error) {
			_, sees := oomKills()
			return sandboxes.Identity{
				Protocol: sandboxes.Protocol, OS: runtime.GOOS, Arch: runtime.GOARCH, Where: setup.Where, SeesOOM: sees,
			}, nil
		})},
		fsys.Entry{Name: "run", Node: commands.root()},
		fsys.Entry{Name: "calls", Node: calls.root()},
		fsys.Entry{Name: "files", Node: disk.root()},
	)
	server := &ninep.Server{
		Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
			return ninep.Grant{Root: tree}, nil
		},
		MaxMsize: maxMessage, MaxBytes: 16 << 20, // of the sandbox's own memory
	}
	defer server.Shutdown(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	server.ServeConn(conn)
	return nil
}
