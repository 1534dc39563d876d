package identity

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"agent9/fsys"
)

// readKeyFile returns the key in the file at path, or fsys.NotExist. It
// refuses a file that others may read.
func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fsys.E(fsys.NotExist, "the master key "+path+" is missing, and the keys here are sealed under it: "+
			"put it back from your backup; a new one could not open them")
	}
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the master key", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the master key", err)
	}
	if perm := info.Mode().Perm(); !info.Mode().IsRegular() || perm&0o077 != 0 {
		return nil, fsys.E(fsys.Permission, fmt.Sprintf("the master key %s must be a file that only its owner may read, "+
			"and is %s: chmod 600 it, if nobody has read it", path, info.Mode()))
	}
	text := make([]byte, 2*chacha20poly1305.KeySize+2)
	defer clear(text)
	n, err := io.ReadFull(f, text)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, fsys.Wrap(fsys.Unavailable, "the master key", err)
	}
	digits := bytes.TrimSuffix(text[:n], []byte("\n"))
	key := make([]byte, chacha20poly1305.KeySize)
	if len(digits) != 2*len(key) {
		return nil, notKeyFile(path)
	}
	if _, err := hex.Decode(key, digits); err != nil {
		return nil, notKeyFile(path) // err quotes a part of the file
	}
	return key, nil
}

func notKeyFile(path string) error {
	return fsys.E(fsys.Invalid, "the master key "+path+" is damaged: want 64 hex digits and a newline")
}

// createKeyFile makes a new key in a file at path that is on disk, whole, when
// it has that name. It never replaces a file.
func createKeyFile(path string) ([]byte, error) {
	key := make([]byte, chacha20poly1305.KeySize)
	rand.Read(key) // never fails
	if err := writeNew(path, hexLine(key)); err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "making the master key", err)
	}
	return key, nil
}

// halfMade is what is behind the name of a key file while that is made.
const halfMade = ".new-"

// sweepHalfMade removes what a program left that died while it made the key
// file at path: it may have the key.
func sweepHalfMade(path string) {
	all, _ := os.ReadDir(filepath.Dir(path))
	for _, f := range all {
		if strings.HasPrefix(f.Name(), filepath.Base(path)+halfMade) {
			os.Remove(filepath.Join(filepath.Dir(path), f.Name()))
		}
	}
}

func writeNew(path string, text []byte) (err error) {
	defer clear(text)
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+halfMade+"*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
