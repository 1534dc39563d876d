package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/services/host"
	"agent9/store"
)

// goldenVar is a variable of TestGolden: "write" freezes the data directories
// again, with the daemon as it is, and "text" takes what that makes of the ones
// that are there as what it is to make.
const goldenVar = "AGENT9_GOLDEN"

// The members of an archive beside those of the data directory.
const (
	frozenName = "frozen" // when
	tokenName  = "token"  // of the agent ann
)

func goldenFile(name string) string { return filepath.Join("testdata", "golden", name) }

// freeze makes a world, ends its daemon, and writes what is left.
func freeze(t *testing.T, name string, end func(g *golden)) {
	g := newGolden(t)
	g.world()
	end(g)
	g.postpone()
	// The clock of the data stood still when it was written.
	extra := map[string]string{frozenName: fsys.Stamp(time.Now()), tokenName: g.token}
	g.archive(goldenFile(name+".tar.gz"), extra)
	g.d.Start() // ends what a daemon that was killed has left
	g.d.Stop()
}

// postpone gives what waits for the operator all the time there is: limits have
// a year at most, and then these would be other files.
func (g *golden) postpone() {
	g.Helper()
	db, err := openStore(g.d.Data())
	if err != nil {
		g.Fatal(err)
	}
	defer db.Close()
	ctx := daemon.Within(g.T)
	err = db.Update(ctx, func(tx store.Store) error {
		for p, err := range store.All(ctx, tx, "data/") {
			if err != nil || !strings.Contains(p.Key, "/budget/wait/") {
				continue
			}
			was := p.Value
			_, rest, _ := bytes.Cut(was, []byte(`"expires":"`))
			now := bytes.Replace(was, rest[:4], []byte("2097"), -1)
			if err := tx.Put(ctx, p.Key, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
}

// archive writes the data directory without what belongs to this machine.
func (g *golden) archive(to string, extra map[string]string) {
	g.Helper()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	w := tar.NewWriter(z)
	add := func(h *tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			g.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			g.Fatal(err)
		}
	}
	err := filepath.WalkDir(g.d.Data(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == g.d.Data() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(g.d.Data(), path)
		h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second)}
		switch {
		case e.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
			add(h, nil)
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if name != host.DatabaseName { // such as what a sandbox was told of where it is
				b = bytes.ReplaceAll(b, []byte(g.d.Dir), []byte("/golden"))
				b = bytes.ReplaceAll(b, []byte(os.Getenv("AGENT9_HELPER")), []byte("/golden/a9"))
			}
			g.hostless(name, b)
			add(h, b)
		}
		return nil
	})
	for name, content := range extra {
		add(&tar.Header{Name: name, Mode: 0o600}, []byte(content))
	}
	if err = errors.Join(err, w.Close(), z.Close()); err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, out.Bytes(), 0o644)
	}
	if err != nil {
		g.Fatal(err)
	}
	g.Logf("%s has %d bytes", to, out.Len())
	if out.Len() > 1<<20 {
		g.Errorf("%s is too large", to)
	}
}

// hostless checks that what is frozen names nothing of this machine.
func (g *golden) hostless(name string, b []byte) {
	g.Helper()
	here, _ := os.Getwd()
	machine, _ := os.Hostname()
	for _, word := range []string{g.d.Dir, here, machine, filepath.Dir(os.Getenv("AGENT9_HELPER")), os.Getenv("HOME") + "/"} {
		if len(word) > 3 && bytes.Contains(b, []byte(word)) {
			i := bytes.Index(b, []byte(word))
			g.Errorf("%s names %s: …%q…", name, word, b[max(0, i-200):min(len(b), i+200)])
		}
	}
}

// thaw unpacks an archive as the data of a daemon that does not run.
func (g *golden) thaw(name string) (frozen string) {
	g.Helper()
	f, err := os.Open(goldenFile(name + ".tar.gz"))
	if err != nil {
		g.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		g.Fatal(err)
	}
	if err := os.Mkdir(g.d.Data(), 0o700); err != nil {
		g.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return frozen
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(r)
		}
		if err != nil {
			g.Fatal(err)
		}
		path := filepath.Join(g.d.Data(), filepath.FromSlash(h.Name))
		switch {
		case h.Name == frozenName:
			frozen = string(b)
		case h.Name == tokenName:
			g.token = string(b)
		case h.Typeflag == tar.TypeDir:
			err = os.Mkdir(path, fs.FileMode(h.Mode))
		default:
			if err = os.WriteFile(path, b, fs.FileMode(h.Mode)); err == nil {
				err = os.Chtimes(path, h.ModTime, h.ModTime)
			}
		}
		if err != nil {
			g.Fatal(err)
		}
	}
}
