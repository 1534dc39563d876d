package secrets

import (
	"cmp"
	"context"
	"io/fs"

	"agent9/fsys"
	"agent9/store"
)

// files is the directory: one file per secret, in the order of their names.
type files struct{ s *Service }

var _ fsys.Set = files{}

// Stat gives the permission to create and remove.
func (files) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }

func (f files) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if checkName(name) != nil {
		return nil, fsys.NotExist
	}
	if has, err := store.Has(ctx, f.s.config.Store, name); (err != nil || !has) && !f.s.expects(name) {
		return nil, cmp.Or(err, error(fsys.NotExist))
	}
	return &file{f.s, name}, nil
}

func (f files) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for p, err := range store.All(ctx, store.Forgiving(f.s.config.Store), "") {
		if err != nil {
			return nil, err
		}
		list = append(list, fsys.Entry{Name: p.Key, Node: &file{f.s, p.Key}})
	}
	return list, nil
}

// Create opens a secret that there is when it has a value. Until then it can be
// walked to as long as it is open, as kernels do to what they have made.
func (f files) Create(ctx context.Context, name string, _ fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	if _, err := f.Walk(ctx, name); err == nil {
		return nil, nil, fsys.Exist
	} else if fsys.CodeOf(err) != fsys.NotExist {
		return nil, nil, err
	}
	n := &file{f.s, name}
	h, err := n.open(ctx, flag, func() { f.s.expect(name, -1) })
	if err == nil {
		f.s.expect(name, 1)
	}
	return n, h, err
}

// checkName reports whether a secret can be called name: it is a word in other
// files.
func checkName(name string) error {
	if name == "" || len(name) > 63 || name[0] == '.' || name[0] == '-' {
		return fsys.E(fsys.Invalid, "the name of a secret has 1 to 63 letters, and does not begin with . or -")
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return fsys.E(fsys.Invalid, "the name of a secret is made of letters, digits, and - _ . only")
		}
	}
	return nil
}

// file is a secret that there is, or is about to be.
type file struct {
	s    *Service
	name string
}

var (
	_ fsys.Remover   = (*file)(nil)
	_ fsys.Truncater = (*file)(nil)
)

func (f *file) Stat(ctx context.Context) (fsys.Info, error) {
	info := fsys.Info{Kind: fsys.Message, Perm: 0o200}
	rec, err := store.GetJSON[record](ctx, f.s.config.Store, f.name)
	if err != nil && fsys.CodeOf(err) != fsys.NotExist && !store.IsDamaged(err) {
		return info, err
	}
	info.ModTime = rec.Set
	return info, nil
}

func (f *file) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return f.open(ctx, flag, nil)
}

func (f *file) open(ctx context.Context, flag fsys.Flag, closed func()) (fsys.Handle, error) {
	if flag&fsys.Read != 0 {
		return nil, fsys.E(fsys.Permission, "a secret cannot be read, by anybody; write it to set it anew")
	}
	call := &fsys.Call{Raw: true, Limit: maxValue, Closed: closed, Do: func(ctx context.Context, value []byte) ([]byte, error) {
		return nil, f.s.set(ctx, f.name, value)
	}}
	return call.Open(ctx, flag)
}

// Truncate does nothing: the old value stays until there is a new one.
func (f *file) Truncate(context.Context, int64) error { return nil }

func (f *file) Remove(ctx context.Context) error { return f.s.remove(ctx, f.name) }
