// Package namespace composes services into the one tree that somebody sees,
// and decides at each mount which operations a caller may do and which account pays.
//
// A [Namespace] is a mount table. The mount with the longest path that is a
// prefix of a file's path serves the file; which one that is, is decided once,
// when the file is walked to, and costs a read or a write nothing. A directory
// that nobody serves exists if something is mounted below it.
//
// A path belongs to its mount whether that is shown or not: what another mount
// has below that path is never reached, and nothing else can be put there.
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
	// ID, if set before the first mount, is which directory Root is: with it the
	// files in all namespaces of this ID are the same that have the same path.
	ID fsys.ID
	// Over, if set before the first mount, returns why all of this is over, or
	// nil. Then everything below a mount fails with that, also what is open:
	// what it has gathered does not act.
	Over func() error

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

// idAt is which file is at path, if that does not know by itself.
func (ns *Namespace) idAt(path string) fsys.ID {
	if ns.ID == (fsys.ID{}) || path == "" {
		return ns.ID
	}
	return fsys.ID{In: ns.ID.In, Path: ns.ID.Path + "/" + path}
}

func (ns *Namespace) over() error {
	if ns.Over == nil {
		return nil
	}
	return ns.Over()
}

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

// at returns the node at path, where under is what the mount above has there,
// or nil. Only nodes on the way to a mount point are wrapped, so what is past
// the last one is the service's own.
func (ns *Namespace) at(path string, under *guard) fsys.Node {
	t := ns.load()
	if m := t.mounts[path]; m != nil {
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

// owns reports whether name in dir is the path of a mount, shown or not, or
// leads to one.
func (t *table) owns(dir, name string) bool { return slices.Contains(t.below[dir], name) }

// A dir is a directory on the way to a mount point.
type dir struct {
	ns    *Namespace
	path  string
	under *guard // the directory of the mount that the path belongs to, or nil
}

var (
	_ fsys.Creator = (*dir)(nil)
	_ fsys.Maker   = (*dir)(nil)
	_ fsys.Renamer = (*dir)(nil)
	_ fsys.Remover = (*dir)(nil)
	_ fsys.Taker   = (*dir)(nil)

	_ fsys.Identifier = (*dir)(nil)
)

func (d *dir) ID() fsys.ID {
	if own := d.own(); own != nil {
		return own.ID()
	}
	return d.ns.idAt(d.path)
}

// own is what is under d, or nil if there is nothing that is shown.
func (d *dir) own() *guard {
	if d.under == nil || d.under.mount.isHidden() {
		return nil
	}
	return d.under
}

func (d *dir) Takes() bool { own := d.own(); return own != nil && own.Takes() }

func (d *dir) Stat(ctx context.Context) (fsys.Info, error) {
	if own := d.own(); own != nil {
		return own.Stat(ctx)
	}
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555}, nil
}

func (d *dir) Open(ctx context.Context, f fsys.Flag) (fsys.Handle, error) {
	if own := d.own(); own != nil {
		return own.Open(ctx, f)
	}
	return fsys.OpenDir(f)
}

func (d *dir) Walk(ctx context.Context, name string) (fsys.Node, error) {
	path, t := join(d.path, name), d.ns.load()
	if own := d.own(); own != nil && t.mounts[path] == nil {
		under, err := own.walk(ctx, name)
		if err == nil || !t.leads(path) {
			return d.found(path, under, err)
		}
	}
	if !t.leads(path) {
		return nil, fsys.NotExist
	}
	return d.ns.at(path, nil), nil
}

func (d *dir) found(path string, under *guard, err error) (fsys.Node, error) {
	if err != nil {
		return nil, err
	}
	return d.ns.at(path, under), nil
}

func (d *dir) List(ctx context.Context) ([]fsys.Entry, error) {
	t := d.ns.load()
	var list []fsys.Entry
	listed := map[string]bool{}
	if own := d.own(); own != nil {
		all, err := own.List(ctx)
		if err != nil {
			return nil, err
		}
		list = make([]fsys.Entry, 0, len(all)+len(t.below[d.path]))
		for _, e := range all {
			path := join(d.path, e.Name)
			if t.owns(d.path, e.Name) {
				if listed[e.Name] = true; t.mounts[path] != nil && !t.leads(path) {
					continue
				}
				e = fsys.Entry{Name: e.Name, Node: d.ns.at(path, e.Node.(*guard))}
			}
			list = append(list, e)
		}
	}
	for _, name := range t.below[d.path] {
		if path := join(d.path, name); !listed[name] && t.leads(path) {
			list = append(list, fsys.Entry{Name: name, Node: d.ns.at(path, nil)})
		}
	}
	return list, nil
}

func (d *dir) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	op := "create"
	if tries(flag) {
		op = untold
	}
	own, err := d.changeable(ctx, op, name)
	if err != nil {
		return nil, nil, err
	}
	return own.Create(ctx, name, perm, flag)
}

func (d *dir) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	own, err := d.changeable(ctx, "mkdir", name)
	if err != nil {
		return nil, err
	}
	return own.Mkdir(ctx, name, perm)
}

func (d *dir) Rename(ctx context.Context, name, newName string) error {
	t := d.ns.load()
	if t.owns(d.path, name) && !t.leads(join(d.path, name)) {
		return fsys.NotExist
	}
	for _, n := range []string{name, newName} {
		if t.owns(d.path, n) {
			return d.refuse(ctx, "rename", n, fsys.E(fsys.Permission, n+" is a mount point, or one is below it"))
		}
	}
	own, err := d.changeable(ctx, "rename", newName)
	if err != nil {
		return err
	}
	return own.Rename(ctx, name, newName)
}

func (d *dir) Remove(ctx context.Context) error {
	return d.refuse(ctx, "remove", "", fsys.E(fsys.Permission, "something is mounted here"))
}

// changeable returns what can make name in d.
func (d *dir) changeable(ctx context.Context, op, name string) (*guard, error) {
	t, own := d.ns.load(), d.own()
	switch {
	case t.leads(join(d.path, name)):
		return nil, fsys.Exist
	case t.owns(d.path, name):
		return nil, d.refuse(ctx, op, name, fsys.E(fsys.Permission, name+" is the path of a mount that is hidden from you"))
	case own == nil:
		return nil, d.refuse(ctx, op, name, fsys.E(fsys.Permission, "nothing can be created in this directory"))
	}
	return own, nil
}

// untold is an operation whose refusal is nobody's concern; see tries.
const untold = ""

func (d *dir) refuse(ctx context.Context, op, name string, err error) error {
	if d.ns.Refused != nil && op != untold {
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
