package bundle

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"iter"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// A Part is what a service has stored. Records yields the same each time, in
// the order of the keys.
type Part struct {
	Name    string
	Records iter.Seq2[store.Pair, error]
}

// Contents are what goes into a bundle.
type Contents struct {
	Agent9, Name, Pubkey string
	Exported             time.Time
	Parts                []Part
	Keys                 iter.Seq2[store.Pair, error] // nil: none
}

// Write writes a bundle of c to w. It goes through the records twice, and
// holds one at a time in memory.
func Write(w io.Writer, c Contents) error {
	m := Manifest{Format: Format, Agent9: c.Agent9, Name: c.Name, Pubkey: c.Pubkey,
		Exported: fsys.Stamp(c.Exported), Keys: c.Keys != nil}
	readme := m.readme()
	sum := sha256.Sum256(readme)
	m.Members = append(m.Members, Member{Name: readmeName, Size: int64(len(readme)), SHA256: hex.EncodeToString(sum[:])})
	for _, p := range c.Parts {
		if err := m.measure(memberOf(p.Name), p.Records); err != nil {
			return err
		}
	}
	if c.Keys != nil {
		if err := m.measure(keysName, c.Keys); err != nil {
			return err
		}
	}
	manifest := fsys.Line(m)
	a := &archive{tar: tar.NewWriter(w), at: c.Exported}
	if err := a.file(manifestName, manifest); err != nil {
		return err
	}
	if err := a.file(readmeName, readme); err != nil {
		return err
	}
	for i, p := range c.Parts {
		if err := a.records(m.Members[1+i], p.Records); err != nil {
			return err
		}
	}
	if c.Keys != nil {
		if err := a.records(m.Members[len(m.Members)-1], c.Keys); err != nil {
			return err
		}
	}
	if err := a.file(sealName, sealOf(manifest)); err != nil {
		return err
	}
	return a.tar.Close()
}

func sealOf(manifest []byte) []byte {
	sum := sha256.Sum256(manifest)
	return fmt.Appendln(nil, hex.EncodeToString(sum[:]))
}

// measure adds the member that records will make.
func (m *Manifest) measure(name string, records iter.Seq2[store.Pair, error]) error {
	f := Member{Name: name}
	sum := sha256.New()
	for p, err := range records {
		if err != nil {
			return err
		}
		n, _ := sum.Write(encode(p)) // never fails
		f.Size += int64(n)
		f.Records++
	}
	if f.Size > maxMember {
		return fsys.E(fsys.TooLarge, fmt.Sprintf("%s would have %d bytes, and a member of a bundle has %d at most", name, f.Size, int64(maxMember)))
	}
	f.SHA256 = hexSum(sum)
	m.Members = append(m.Members, f)
	return nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

type archive struct {
	tar *tar.Writer
	at  time.Time
}

func (a *archive) begin(name string, size int64) error {
	return a.tar.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: a.at.Truncate(time.Second), Format: tar.FormatUSTAR})
}

func (a *archive) file(name string, data []byte) error {
	if err := a.begin(name, int64(len(data))); err != nil {
		return err
	}
	_, err := a.tar.Write(data)
	return err
}

func (a *archive) records(f Member, records iter.Seq2[store.Pair, error]) error {
	if err := a.begin(f.Name, f.Size); err != nil {
		return err
	}
	for p, err := range records {
		if err != nil {
			return err
		}
		if _, err := a.tar.Write(encode(p)); err != nil {
			return err
		}
	}
	return nil
}
