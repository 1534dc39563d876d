package daemon

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"agent9/fsys"
)

// agentctlOn runs agentctl at the daemon with a passphrase in its environment.
func (d *Daemon) agentctl(in []byte, args ...string) (out []byte, says string, err error) {
	d.T.Helper()
	cmd := CtlCommand(d.T, "unix:"+d.Sock(), args...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=", "AGENT9_BUNDLE_PASSPHRASE=correct h0rse")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err = cmd.Output()
	return out, stderr.String(), err
}

func (d *Daemon) MustCtl(in []byte, args ...string) []byte {
	d.T.Helper()
	out, says, err := d.agentctl(in, args...)
	if err != nil {
		d.T.Fatalf("agentctl %q: %v: %s", args, err, says)
	}
	return out
}

// SaysNo checks that agentctl fails and says words.
func (d *Daemon) SaysNo(in []byte, words string, args ...string) {
	d.T.Helper()
	out, says, err := d.agentctl(in, args...)
	if err == nil || len(out) > 0 || !strings.Contains(says, words) {
		d.T.Errorf("agentctl %q: %v, printed %q and said %q, want %q", args, err, out, says, words)
	}
}

const Canary = "c4nary-of-a-s3cret"

// Snapshot reads every file of a tree that reading does not change, and the
// size of every stream.
func (tr *Tree) Snapshot(path string) map[string]string {
	files := map[string]string{}
	n, err := fsys.WalkPath(Within(tr.T), tr.Root, path)
	if err != nil {
		tr.T.Fatal(err)
	}
	tr.gather(files, n, "")
	return files
}

func (tr *Tree) gather(files map[string]string, n fsys.Node, path string) {
	ctx := Within(tr.T)
	info, err := n.Stat(ctx)
	if err != nil {
		tr.T.Fatalf("%s: %v", path, err)
	}
	switch {
	case path == "/compute/providers": // is the daemon's
	case info.Kind == fsys.Directory:
		list, err := fsys.List(ctx, n)
		if err != nil {
			tr.T.Fatalf("%s: %v", path, err)
		}
		files[path+"/"] = fmt.Sprint(info.Perm)
		for _, e := range list {
			tr.gather(files, e.Node, path+"/"+e.Name)
		}
	case info.Kind == fsys.Message, info.Perm&0o444 == 0, strings.HasSuffix(path, "inbox/next"), strings.HasSuffix(path, "inbox/head"):
		files[path] = info.Kind.String()
	default:
		h, err := n.Open(ctx, fsys.Read)
		if err != nil {
			tr.T.Fatalf("%s: %v", path, err)
		}
		defer h.Close()
		b := make([]byte, info.Size)
		for m := int64(0); m < info.Size; {
			k, err := fsys.ReadAt(ctx, h, b[m:], m)
			if err != nil {
				tr.T.Fatalf("%s: %v", path, err)
			}
			m += int64(k)
		}
		files[path] = string(b)
	}
}

func Second[T any](_ T, err error) error { return err }
