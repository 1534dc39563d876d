package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A server is one that runs, with the files of a fixture.
type server struct {
	name  string
	sock  string
	aname string
	dir   []string // names that lead from the root to the files
	bare  bool     // the floor
	lacks dialect  // that it does not speak
	*process
}

func (s *server) speaks(d dialect) bool { return d != s.lacks }

// ours is the name of agentd among the servers.
const ours = "agentd"

// startAgentd starts agentd with a data directory of its own in dir.
func (b *bench) startAgentd(ctx context.Context, dir string, args ...string) (*server, error) {
	if b.agentd == "" {
		b.say("building agentd")
		bin, err := goBuild(ctx, b.dir, "agent9/cmd/agentd")
		if err != nil {
			return nil, fmt.Errorf("agentd is not built, give --agentd: %w", err)
		}
		b.agentd = bin
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &server{name: ours, sock: filepath.Join(dir, "s")}
	args = append([]string{"--data", filepath.Join(dir, "data"), "--listen", "unix:" + s.sock, "--compute", "echo=echo:"}, args...)
	var err error
	s.process, err = launch(ctx, exec.Command(b.agentd, args...), filepath.Join(dir, "log"), listens("unix", s.sock))
	return s, err
}

// startFloor starts the server that everything is held against.
func (b *bench) startFloor(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{name: "floor", sock: filepath.Join(b.dir, "floor"), bare: true}
	s.process, err = launch(ctx, exec.Command(self, floorCommand, s.sock), s.sock+".log", listens("unix", s.sock))
	return s, err
}

// A peer is a 9P server of others that exports a directory.
type peer struct {
	name  string
	lacks dialect
	// find returns its program, or why it cannot be had.
	find func(ctx context.Context, to string) (bin string, err error)
	// command serves dir at sock.
	command func(bin, sock, dir string) *exec.Cmd
	aname   func(dir string) string
}

func peers() []peer {
	root := func(string) string { return "" }
	built := func(path string) func(context.Context, string) (string, error) {
		return func(ctx context.Context, to string) (string, error) { return goBuild(ctx, to, path) }
	}
	return []peer{
		{
			name: "p9ufs", lacks: plan9, aname: root,
			find: built("github.com/hugelgupf/p9/cmd/p9ufs"),
			command: func(bin, sock, dir string) *exec.Cmd {
				return exec.Command(bin, "-unix", "-root", dir, sock)
			},
		},
		{
			name: "diod", lacks: plan9, aname: func(dir string) string { return dir },
			find: func(context.Context, string) (string, error) { return exec.LookPath("diod") },
			command: func(bin, sock, dir string) *exec.Cmd {
				return exec.Command(bin, "-f", "-n", "-l", sock, "-e", dir, "-L", "stderr")
			},
		},
		{
			name: "export9p", lacks: linux, aname: root,
			find: built("github.com/knusbaum/go9p/cmd/export9p"),
			command: func(bin, sock, dir string) *exec.Cmd {
				cmd := exec.Command(bin, "-noperm", "-dir", dir, "-srv", filepath.Base(sock))
				cmd.Env = append(os.Environ(), "NAMESPACE="+filepath.Dir(sock)) // where it puts its socket
				return cmd
			},
		},
	}
}

// startPeers starts those of the peers that are wanted and can be had.
func (b *bench) startPeers(ctx context.Context, dir string) (all []*server) {
	for _, p := range peers() {
		if !b.wantsPeer(p.name) {
			continue
		}
		s, err := b.startPeer(ctx, p, dir)
		if err != nil {
			fmt.Fprintf(b.notes, "agentbench: without %s: %s\n", p.name, strings.TrimSpace(err.Error()))
			continue
		}
		all = append(all, s)
	}
	return all
}

func (b *bench) wantsPeer(name string) bool {
	return slices.Contains(b.peers, "all") || slices.Contains(b.peers, name)
}

func (b *bench) startPeer(ctx context.Context, p peer, dir string) (*server, error) {
	bin, err := p.find(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	s := &server{name: p.name, sock: filepath.Join(b.dir, p.name+".s"), aname: p.aname(dir), lacks: p.lacks}
	s.process, err = launch(ctx, p.command(bin, s.sock, dir), s.sock+".log", listens("unix", s.sock))
	return s, err
}
