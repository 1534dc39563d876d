// Package namespace composes services into the one tree that somebody sees,
// and decides at each mount who may do what there and who pays.
//
// A [Namespace] is a mount table. The mount with the longest path that is a
// prefix of a file's path serves the file; which one that is, is decided once,
// when the file is walked to, and costs a read or a write nothing. A directory
// that nobody serves exists if something is mounted below it.
//
// An [Option] given to Mount is a gate: it is asked before an operation and
// may refuse it, or add to its context who pays.
package namespace

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"agent9/fsys"
)

// A Namespace is a mount table. It is itself a FileService, so one namespace
// can be mounted in another. The zero value is empty and ready to use.
type Namespace struct {
	// Refused, if set before the first mount, is told of every operation that
	// a person or a program was refused below any mount, with the path in
	// this namespace. What merely does not exist is no refusal.
	Refused func(ctx context.Context, path, op string, err error)
	// Ended, if set before the first mount, reports whether all of this is
	// over: then nothing exists here any longer, and what is open fails.
	Ended func() bool

	mu    sync.Mutex // held by writers; readers load the table
	table atomic.Pointer[table]
}

// A table is immutable: a change makes another one.
type table struct {
	mounts map[string]*mount
	below  map[string][]string // for every directory above a mount: the names in it that lead to one
}

// A Mount describes an entry of the mount table.
type Mount struct {
	Path   string // "/compute"
	Access string // of the gates: "read-only", or empty
}

// Mount makes svc appear at path, under gates that are asked in their order.
// Exist if something is mounted exactly there.
func (ns *Namespace) Mount(path string, svc fsys.FileService, gates ...Option) error {
	path, err := clean(path)
	if err != nil {
		return err
	}
	m := &mount{ns: ns, path: path}
	for _, o := range gates {
		o(m)
	}
	m.root = &guard{node: svc.Root(), mount: m}
	return ns.change(func(mounts map[string]*mount) error {
		if mounts[path] != nil {
			return fsys.E(fsys.Exist, "something is mounted at /"+path)
		}
		mounts[path] = m
		return nil
	})
}

// Unmount takes away what is mounted at path, and only that. Files that were
// walked to below it do not exist any longer; open handles go on.
func (ns *Namespace) Unmount(path string) error {
	path, err := clean(path)
	if err != nil {
		return err
	}
	return ns.change(func(mounts map[string]*mount) error {
		m := mounts[path]
		if m == nil {
			return fsys.E(fsys.NotExist, "nothing is mounted at /"+path)
		}
		delete(mounts, path)
		m.gone.Store(true)
		return nil
	})
}

func (ns *Namespace) change(f func(map[string]*mount) error) error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	next := &table{mounts: map[string]*mount{}, below: map[string][]string{}}
	for path, m := range ns.load().mounts {
		next.mounts[path] = m
	}
	if err := f(next.mounts); err != nil {
		return err
	}
	for path := range next.mounts {
		for path != "" {
			dir, name := split(path)
			if !slices.Contains(next.below[dir], name) {
				next.below[dir] = append(next.below[dir], name)
			}
			path = dir
		}
	}
	for _, names := range next.below {
		slices.Sort(names)
	}
	ns.table.Store(next)
	return nil
}

func (ns *Namespace) ended() bool { return ns.Ended != nil && ns.Ended() }

var empty table

func (ns *Namespace) load() *table {
	if t := ns.table.Load(); t != nil {
		return t
	}
	return &empty
}

// Mounts lists the mount table, by path.
func (ns *Namespace) Mounts() []Mount {
	var all []Mount
	for path, m := range ns.load().mounts {
		if !m.isHidden() {
			all = append(all, Mount{Path: "/" + path, Access: m.access()})
		}
	}
	slices.SortFunc(all, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Root returns the top of the namespace.
func (ns *Namespace) Root() fsys.Node { return ns.at("", nil) }

// at returns the node at path, where under is what the mount above offers
// there, or nil. Only nodes on the way to a mount point are wrapped, so what
// is past the last one is the service's own.
func (ns *Namespace) at(path string, under fsys.Node) fsys.Node {
	t := ns.load()
	if m := t.mounts[path]; m != nil && !m.isHidden() {
		under = m.root
	}
	if under != nil && path != "" && len(t.below[path]) == 0 {
		return under
	}
	return &dir{ns: ns, path: path, under: under}
}

// leads reports whether something that can be seen is mounted at path or below.
func (t *table) leads(path string) bool {
	if m := t.mounts[path]; m != nil && !m.isHidden() {
		return true
	}
	for _, name := range t.below[path] {
		if t.leads(join(path, name)) {
			return true
		}
	}
	return false
}

// A dir is a directory on the way to a mount point.
type dir struct {
	ns    *Namespace
	path  string
	under fsys.Node // the mount's own directory here, or nil
}

var (
	_ fsys.Creator = (*dir)(nil)
	_ fsys.Maker   = (*dir)(nil)
	_ fsys.Renamer = (*dir)(nil)
	_ fsys.Remover = (*dir)(nil)
	_ fsys.Taker   = (*dir)(nil)
)

func (d *dir) Takes() bool { return d.under != nil && fsys.Takes(d.under) }

func (d *dir) Stat(ctx context.Context) (fsys.Info, error) {
	if d.under != nil {
		return d.under.Stat(ctx)
	}
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555}, nil
}

func (d *dir) Open(ctx context.Context, f fsys.Flag) (fsys.Handle, error) {
	if d.under != nil {
		return d.under.Open(ctx, f)
	}
	return fsys.OpenDir(f)
}

func (d *dir) Walk(ctx context.Context, name string) (fsys.Node, error) {
	path := join(d.path, name)
	var under fsys.Node
	var err error = fsys.NotExist
	if d.under != nil {
		under, err = fsys.Walk(ctx, d.under, name)
	}
	if err != nil && !d.ns.load().leads(path) {
		return nil, err
	}
	return d.ns.at(path, under), nil
}

func (d *dir) List(ctx context.Context) ([]fsys.Entry, error) {
	var own []fsys.Entry
	if d.under != nil {
		var err error
		if own, err = fsys.List(ctx, d.under); err != nil {
			return nil, err
		}
	}
	t := d.ns.load()
	list := make([]fsys.Entry, 0, len(own)+len(t.below[d.path]))
	for _, e := range own {
		if !slices.Contains(t.below[d.path], e.Name) {
			list = append(list, e)
		} else {
			list = append(list, fsys.Entry{Name: e.Name, Node: d.ns.at(join(d.path, e.Name), e.Node)})
		}
	}
	for _, name := range t.below[d.path] {
		if slices.ContainsFunc(own, func(e fsys.Entry) bool { return e.Name == name }) || !t.leads(join(d.path, name)) {
			continue
		}
		list = append(list, fsys.Entry{Name: name, Node: d.ns.at(join(d.path, name), nil)})
	}
	return list, nil
}

func (d *dir) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	if err := d.changeable(ctx, "create", name); err != nil {
		return nil, nil, err
	}
	return fsys.Create(ctx, d.under, name, perm, flag)
}

func (d *dir) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	if err := d.changeable(ctx, "mkdir", name); err != nil {
		return nil, err
	}
	return fsys.Mkdir(ctx, d.under, name, perm)
}

func (d *dir) Rename(ctx context.Context, name, newName string) error {
	for _, n := range []string{name, newName} {
		if d.ns.load().leads(join(d.path, n)) {
			return d.refuse(ctx, "rename", n, fsys.E(fsys.Permission, n+" is a mount point"))
		}
	}
	if err := d.changeable(ctx, "rename", newName); err != nil {
		return err
	}
	return fsys.Rename(ctx, d.under, name, newName)
}

func (d *dir) Remove(ctx context.Context) error {
	return d.refuse(ctx, "remove", "", fsys.E(fsys.Permission, "something is mounted here"))
}

// changeable reports whether name can be made in d by what is under it.
func (d *dir) changeable(ctx context.Context, op, name string) error {
	switch {
	case d.ns.load().leads(join(d.path, name)):
		return fsys.Exist
	case d.under == nil:
		return d.refuse(ctx, op, name, fsys.E(fsys.Permission, "nothing can be made in this directory"))
	}
	return nil
}

func (d *dir) refuse(ctx context.Context, op, name string, err error) error {
	if d.ns.Refused != nil {
		d.ns.Refused(ctx, "/"+join(d.path, name), op, err)
	}
	return err
}

// clean checks a mount path and returns it without a slash at either end.
func clean(path string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return "", nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := fsys.CheckName(name); err != nil {
			return "", fsys.Wrap(fsys.Invalid, "mount path /"+path, err)
		}
	}
	return path, nil
}

func join(dir, name string) string {
	switch {
	case dir == "":
		return name
	case name == "":
		return dir
	}
	return dir + "/" + name
}

func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
