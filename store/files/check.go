package files

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"agent9/store"
	"agent9/store/check"
)

// audit is a tree as its records tell of it.
type audit struct {
	st      store.Updater
	r       *check.Report
	inodes  map[uint64]inode
	entries map[uint64]entryAt // by what they are entries of
	ends    map[uint64]int64   // how far the blocks of a file go
	orphans map[uint64]bool
}

type entryAt struct {
	dir  uint64
	name string
	key  string
}

// Check finds what is wrong with the tree in st.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	a := &audit{st, r, map[uint64]inode{}, map[uint64]entryAt{}, map[uint64]int64{}, map[uint64]bool{}}
	for _, part := range []func(context.Context) error{a.load, a.checkEntries, a.checkBlocks} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	a.checkInodes()
	if err := a.checkMarks(ctx); err != nil {
		return err
	}
	return a.checkUsage(ctx)
}

func (a *audit) load(ctx context.Context) error {
	inodes, err := check.RecordsAs(ctx, a.st, a.r, "i/", "file", func(key string, b []byte, rec *inode) error { return decode(key, b, rec) })
	if err != nil {
		return err
	}
	for key, rec := range inodes {
		if ino, ok := parseIno(key[len("i/"):]); ok {
			a.inodes[ino] = rec
		}
	}
	if _, ok := a.inodes[rootIno]; !ok {
		a.inodes[rootIno] = inode{Dir: true, Perm: 0o755, Version: 1}
	}
	for p, err := range store.All(ctx, a.st, orphans) {
		if err != nil {
			return err
		}
		ino, _ := parseIno(p.Key[len(orphans):])
		if _, ok := a.inodes[ino]; !ok {
			a.r.Mend(fmt.Sprintf("file number %d is marked as removed while it was open, and does not exist", ino), "removes the mark", check.Delete(a.st, p.Key))
			continue
		}
		a.orphans[ino] = true
	}
	for p, err := range store.All(ctx, a.st, "b/") {
		if err != nil {
			return err
		}
		ino, n := blockOf(p.Key)
		a.ends[ino] = max(a.ends[ino], int64(n)*blockSize+int64(len(p.Value)))
	}
	return nil
}

func blockOf(key string) (ino, n uint64) {
	no, block, _ := strings.Cut(key[len("b/"):], "/")
	ino, _ = parseIno(no)
	n, _ = parseIno(block)
	return ino, n
}

func (a *audit) checkEntries(ctx context.Context) error {
	all, err := check.RecordsAs(ctx, a.st, a.r, "d/", "directory entry", func(key string, b []byte, e *entry) error { return decode(key, b, e) })
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		e := all[key]
		no, name, _ := strings.Cut(key[len("d/"):], "/")
		in, _ := parseIno(no)
		rec, there := a.inodes[e.Ino]
		other, twice := a.entries[e.Ino]
		switch {
		case !there:
			made := inode{Dir: e.Dir, Perm: 0o644, Size: a.ends[e.Ino], Version: 1, Parent: in, Name: name}
			if e.Dir {
				made.Perm, made.Size = 0o755, 0
			}
			a.r.Mend(fmt.Sprintf("%s is in its directory, and has no record", name),
				fmt.Sprintf("creates one for the %d bytes that exist", made.Size), check.Put(a.st, inodeKey(e.Ino), made.pack()))
			a.inodes[e.Ino] = made
		case twice && (rec.Parent != in || rec.Name != name):
			a.r.Mend(fmt.Sprintf("%s is the same file as %s", name, other.name), "keeps the name in its record", check.Delete(a.st, key))
			continue
		case twice:
			a.r.Mend(fmt.Sprintf("%s is the same file as %s", other.name, name), "keeps the name in its record", check.Delete(a.st, other.key))
		case rec.Parent != in || rec.Name != name:
			rec.Parent, rec.Name = in, name
			a.r.Mend(fmt.Sprintf("the record of %s has another name or directory", name), "corrects the record from the directory", check.Put(a.st, inodeKey(e.Ino), rec.pack()))
		case rec.Dir != e.Dir:
			a.r.Mend(fmt.Sprintf("its directory has the wrong type for %s", name), "corrects the directory from the record", check.Put(a.st, key, (&entry{e.Ino, rec.Dir}).pack()))
		}
		a.entries[e.Ino] = entryAt{in, name, key}
	}
	return nil
}

// checkInodes finds what is in no directory, or in one that leads nowhere.
func (a *audit) checkInodes() {
	for _, ino := range slices.Sorted(maps.Keys(a.inodes)) {
		rec := a.inodes[ino]
		at, listed := a.entries[ino]
		switch {
		case ino == rootIno || listed && a.reaches(at.dir):
		case a.orphans[ino] && rec.Parent == 0:
		case rec.Parent == 0 && rec.Name == "" && !rec.Dir:
			a.r.Mend(fmt.Sprintf("file number %d was removed, and its %d bytes are still there", ino, rec.Size), "marks it, so that the next start frees it", check.Put(a.st, orphanKey(ino), []byte("{}")))
		default:
			a.r.Mend(fmt.Sprintf("the file %s (number %d) is in no directory that can be reached", rec.Name, ino),
				"puts it back, or into the top directory", func(ctx context.Context) error { return a.reattach(ctx, ino, rec, at) })
		}
	}
}

// reaches reports whether directory ino leads up to the root.
func (a *audit) reaches(ino uint64) bool {
	for range a.inodes {
		if ino == rootIno {
			return true
		}
		rec, ok := a.inodes[ino]
		if !ok || !rec.Dir {
			return false
		}
		ino = rec.Parent
	}
	return false
}

func (a *audit) reattach(ctx context.Context, ino uint64, rec inode, was entryAt) error {
	return a.st.Update(ctx, func(tx store.Store) error {
		if was.key != "" {
			if err := tx.Delete(ctx, was.key); err != nil {
				return err
			}
		}
		parent, name := rec.Parent, rec.Name
		_, err := tx.Get(ctx, entryKey(parent, name))
		if err == nil || parent == ino || name == "" || !a.reaches(parent) {
			parent, name = rootIno, fmt.Sprintf("lost-%d", ino)
		}
		rec.Parent, rec.Name = parent, name
		if err := store.PutJSON(ctx, tx, inodeKey(ino), rec); err != nil {
			return err
		}
		return store.PutJSON(ctx, tx, entryKey(parent, name), entry{ino, rec.Dir})
	})
}

func (a *audit) checkBlocks(ctx context.Context) error {
	err := check.Strays(ctx, a.st, a.r, "b/", "content", func(key string) (string, bool) {
		ino, _ := blockOf(key)
		_, ok := a.inodes[ino]
		_, listed := a.entries[ino] // then it is given a record
		return fmt.Sprintf("file number %d", ino), ok || listed
	})
	for _, ino := range slices.Sorted(maps.Keys(a.ends)) {
		rec, ok := a.inodes[ino]
		if end := a.ends[ino]; ok && end > rec.Size {
			a.r.Mend(fmt.Sprintf("the file %s has %d bytes, and content up to %d", rec.Name, rec.Size, end), "drops the content past its end", func(ctx context.Context) error {
				return a.st.Update(ctx, func(tx store.Store) error {
					return (&change{ctx: ctx, tx: tx}).cut(ino, end, rec.Size)
				})
			})
		}
	}
	return err
}

func (a *audit) checkMarks(ctx context.Context) error {
	for p, err := range store.All(ctx, a.st, untold) {
		if err != nil {
			return err
		}
		ino, _ := parseIno(p.Key[len(untold):])
		if rec, ok := a.inodes[ino]; !ok || rec.Parent == 0 {
			a.r.Mend(fmt.Sprintf("file number %d is marked as written and not yet reported, and does not exist", ino), "removes the mark", check.Delete(a.st, p.Key))
		}
	}
	return nil
}

func (a *audit) checkUsage(ctx context.Context) error {
	u, ok, err := check.Record[usage](ctx, a.st, a.r, usageKey, "the count of files and bytes")
	if err != nil || !ok {
		return err
	}
	should := usage{Last: max(u.Last, rootIno)}
	for ino, rec := range a.inodes {
		should.Last = max(should.Last, ino)
		if !rec.Dir {
			should.Bytes += rec.Size
		}
		if ino != rootIno && rec.Parent != 0 {
			should.Entries++
		}
	}
	if u.Last == 0 && should.Entries == 0 {
		return nil
	}
	if u != should {
		a.r.Mend(fmt.Sprintf("%d files with %d bytes are counted, up to number %d, and there are %d with %d, up to number %d", u.Entries, u.Bytes, u.Last, should.Entries, should.Bytes, should.Last),
			"counts them again", check.PutJSON(a.st, usageKey, should))
	}
	return nil
}

// Where names the file that a key of a tree belongs to, as far as that is known;
// what it reads of s may be damaged.
func Where(ctx context.Context, s store.Store, key string) string {
	_, rest, _ := strings.Cut(key, "/")
	number, name, _ := strings.Cut(rest, "/")
	ino, ok := parseIno(number)
	if !ok {
		return ""
	}
	if !strings.HasPrefix(key, "d/") {
		name = ""
	}
	for range mostDeep {
		if ino == rootIno {
			break
		}
		rec, err := loadInode(ctx, s, ino)
		if err != nil {
			return path.Join(fmt.Sprintf("(file number %d)", ino), name)
		}
		name, ino = path.Join(rec.Name, name), rec.Parent
	}
	return name
}

// mostDeep is in how many directories Where finds a file.
const mostDeep = 100
