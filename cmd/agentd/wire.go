package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/providers/compute"
	"agent9/providers/compute/echo"
	"agent9/providers/compute/exec"
	"agent9/providers/compute/openai"
	"agent9/services/identity"
	"agent9/store"
	"agent9/store/bolt"
)

// This is the only file that names concrete stores, drivers and front ends.

// openStore opens the database in the directory data.
func openStore(data string) (closer interface {
	store.Updater
	Close() error
}, err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the data directory "+data, err)
	}
	return bolt.Open(filepath.Join(data, "agent9.db"))
}

// openRing returns what the agents' keys are encrypted with.
func openRing(ctx context.Context, data string, db store.Updater) (*identity.KeyRing, error) {
	st := store.Sub(db, "keyring/")
	passphrase, err := identity.TakePassphrase()
	if err != nil {
		return nil, err
	}
	if len(passphrase) > 0 {
		return identity.RingFromPassphrase(ctx, st, passphrase)
	}
	return identity.RingFromFile(ctx, st, filepath.Join(data, "master.key"))
}

// provider makes a provider of ID=DRIVER:TARGET.
func provider(spec string, getenv func(string) string) (*compute.Runner, error) {
	id, rest, ok := strings.Cut(spec, "=")
	driver, target, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || fsys.CheckName(id) != nil {
		return nil, fsys.E(fsys.Invalid, "--compute "+spec+": want ID=exec:COMMAND, ID=openai:BASE_URL or ID=echo:")
	}
	var p compute.Provider
	var err error
	switch driver {
	case "exec":
		p, err = exec.New(exec.Config{Command: target})
	case "openai":
		key, name := keyOf(id, target, getenv)
		p, err = openai.New(openai.Config{BaseURL: target, Key: key, KeyName: name})
	case "echo":
		p = echo.New(echo.Config{})
	default:
		err = fsys.E(fsys.Invalid, "no driver is called "+driver+"; there are exec, openai and echo")
	}
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "--compute "+spec, err)
	}
	return compute.NewRunner(id, p), nil
}

// keyOf returns the key of a provider and the variable that it is in:
// <ID>_API_KEY, else OPENAI_API_KEY, which is not sent without TLS: a server
// on this machine has no use for it, and would count as one that bills.
func keyOf(id, url string, getenv func(string) string) (key, name string) {
	name = strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(id)) + "_API_KEY"
	if key = getenv(name); key != "" || !strings.HasPrefix(url, "https:") {
		return key, name
	}
	return getenv("OPENAI_API_KEY"), "OPENAI_API_KEY"
}

// ollamaAddr is where Ollama listens if nobody told it otherwise.
const ollamaAddr = "127.0.0.1:11434"

// found returns the providers that are there without being asked for.
func found(ctx context.Context, getenv func(string) string) (specs []string) {
	if getenv("OPENAI_API_KEY") != "" {
		base := getenv("OPENAI_BASE_URL")
		if base == "" {
			base = "https://api.openai.com/v1"
		}
		specs = append(specs, "openai=openai:"+base)
	}
	if h := getenv("OLLAMA_HOST"); h != "" {
		specs = append(specs, "ollama=openai:"+ollamaURL(h))
	} else if answers(ctx, ollamaAddr) {
		specs = append(specs, "ollama=openai:"+ollamaURL(ollamaAddr))
	}
	if len(specs) == 0 {
		specs = append(specs, "echo=echo:")
	}
	return specs
}

func ollamaURL(host string) string {
	if !strings.Contains(host, "://") {
		if !strings.Contains(host, ":") {
			host += ":11434"
		}
		host = "http://" + host
	}
	return strings.TrimSuffix(host, "/") + "/v1"
}

func answers(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: 300 * time.Millisecond}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// mount shows root to the kernel at dir.
func mount(ctx context.Context, root fsys.Node, dir string) (unmount func() error, err error) {
	m, err := fuse.Mount(ctx, root, dir, fuse.Options{Caller: fsys.Operator})
	if err != nil {
		return nil, err
	}
	return m.Unmount, nil
}
