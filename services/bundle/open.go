package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"iter"

	"agent9/fsys"
	"agent9/store"
)

// A Bundle is one that was read through and found whole.
type Bundle struct {
	Manifest
	r  io.ReaderAt
	at map[string]int64 // where the members begin
}

// Open reads a bundle of size bytes through. Invalid says what is wrong with
// it, Unsupported that it is of a newer format. It holds one record at a time in
// memory.
func Open(r io.ReaderAt, size int64) (*Bundle, error) {
	b := &Bundle{r: r, at: map[string]int64{}}
	in := io.NewSectionReader(r, 0, size)
	files := tar.NewReader(in)
	manifest, err := b.first(files)
	if err != nil {
		return nil, err
	}
	for _, f := range b.Members {
		h, err := next(files, f.Name)
		if err != nil {
			return nil, err
		}
		if h.Size != f.Size {
			return nil, invalid("the bundle is damaged: %s has %d bytes, and its manifest says %d", f.Name, h.Size, f.Size)
		}
		if b.at[f.Name], err = in.Seek(0, io.SeekCurrent); err != nil {
			return nil, err
		}
		if err := f.verify(files); err != nil {
			return nil, err
		}
	}
	if _, err := next(files, sealName); err != nil {
		return nil, err
	}
	seal, err := io.ReadAll(io.LimitReader(files, 128))
	if err != nil || !bytes.Equal(seal, sealOf(manifest)) {
		return nil, invalid("the bundle is damaged: manifest.json is not what was written")
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		return nil, invalid("the bundle has more in it than a bundle has")
	}
	return b, nil
}

// first reads the manifest.
func (b *Bundle) first(files *tar.Reader) ([]byte, error) {
	h, err := files.Next()
	if err != nil || h.Name != manifestName || h.Size > maxManifest {
		return nil, notBundle
	}
	doc, err := io.ReadAll(files)
	if err != nil {
		return nil, cutOff
	}
	b.Manifest, err = parseManifest(doc)
	return doc, err
}

var (
	notBundle = fsys.E(fsys.Invalid, "this is not a bundle: it does not begin with a manifest.json as agentctl export writes it")
	cutOff    = fsys.E(fsys.Invalid, "the bundle is damaged, or ends too early")
)

func next(files *tar.Reader, name string) (*tar.Header, error) {
	h, err := files.Next()
	switch {
	case err != nil:
		return nil, cutOff
	case h.Name != name || h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0:
		return nil, invalid("the bundle is damaged: where %s should be is %q", name, h.Name)
	}
	return h, nil
}

// verify reads a member through.
func (f Member) verify(r io.Reader) error {
	sum := sha256.New()
	r = io.TeeReader(r, sum)
	count := int64(0)
	if f.Name == readmeName {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return cutOff
		}
	} else {
		for _, err := range records(r) {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return cutOff
			}
			if err != nil {
				return fsys.Wrap(fsys.Invalid, "the bundle is damaged: "+f.Name, err)
			}
			count++
		}
	}
	if hexSum(sum) != f.SHA256 || count != f.Records {
		return invalid("the bundle is damaged: %s is not what was written", f.Name)
	}
	return nil
}

// Parts returns the names of the parts that the bundle has.
func (b *Bundle) Parts() (parts []string) {
	for _, f := range b.Members {
		if part, ok := partOf(f.Name); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// Records yields what a part has stored; nothing if there is no such part.
func (b *Bundle) Records(part string) iter.Seq2[store.Pair, error] { return b.member(memberOf(part)) }

// KeyRecords yields what opens with the passphrase.
func (b *Bundle) KeyRecords() iter.Seq2[store.Pair, error] { return b.member(keysName) }

func (b *Bundle) member(name string) iter.Seq2[store.Pair, error] {
	for _, f := range b.Members {
		if f.Name == name {
			return records(io.NewSectionReader(b.r, b.at[name], f.Size))
		}
	}
	return func(func(store.Pair, error) bool) {}
}
