package compute

import (
	"context"
	"slices"

	"agent9/fsys"
)

// files are what the directory of a job has.
var files = []struct {
	name string
	node func(*job) fsys.Node
}{
	{"request", func(j *job) fsys.Node { return fsys.Text(j.request) }},
	{"status", func(j *job) fsys.Node { return fsys.JSON(j.status) }},
	{"output", func(j *job) fsys.Node { return stream{j, (*job).outputTape} }},
	{"chunks", func(j *job) fsys.Node { return stream{j, (*job).chunksTape} }},
	{"result", func(j *job) fsys.Node { return result{j} }},
	{"usage", func(j *job) fsys.Node { return fsys.JSON(j.usage) }},
	{"ctl", func(j *job) fsys.Node { return &fsys.Ctl{Do: j.control, Text: j.commands} }},
}

// jobFiles is the directory of a job.
type jobFiles struct{ j *job }

func (d jobFiles) Walk(_ context.Context, name string) (fsys.Node, error) {
	if _, err := d.j.present(); err != nil {
		return nil, err
	}
	hidden := d.j.record().Hidden
	for _, f := range files {
		if f.name == name && !slices.Contains(hidden, name) {
			return file{d.j, f.name, f.node(d.j)}, nil
		}
	}
	return nil, fsys.NotExist
}

func (d jobFiles) List(context.Context) ([]fsys.Entry, error) {
	if _, err := d.j.present(); err != nil {
		return nil, err
	}
	hidden := d.j.record().Hidden
	var list []fsys.Entry
	for _, f := range files {
		if !slices.Contains(hidden, f.name) {
			list = append(list, fsys.Entry{Name: f.name, Node: file{d.j, f.name, f.node(d.j)}})
		}
	}
	return list, nil
}

func (d jobFiles) Stat(context.Context) (fsys.Info, error) {
	if _, err := d.j.present(); err != nil {
		return fsys.Info{}, err
	}
	r := d.j.record()
	return fsys.Info{Perm: 0o755, ModTime: r.modTime()}, nil
}

func (d jobFiles) Remove(ctx context.Context) error {
	if _, err := d.j.present(); err != nil {
		return err
	}
	return d.j.s.remove(ctx, d.j)
}

// file is a file of a job. Removing it hides it.
type file struct {
	j    *job
	name string
	node fsys.Node
}

var (
	_ fsys.Truncater = file{}
	_ fsys.Remover   = file{}
)

func (f file) Stat(ctx context.Context) (fsys.Info, error) {
	if _, err := f.j.present(); err != nil {
		return fsys.Info{}, err
	}
	info, err := f.node.Stat(ctx)
	r := f.j.record()
	info.ModTime = r.modTime()
	return info, err
}

func (f file) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if _, err := f.j.present(); err != nil {
		return nil, err
	}
	return f.node.Open(ctx, flag)
}

func (f file) Truncate(ctx context.Context, size int64) error {
	return fsys.Truncate(ctx, f.node, size)
}

func (f file) Remove(ctx context.Context) error {
	if _, err := f.j.present(); err != nil {
		return err
	}
	return f.j.s.hide(ctx, f.j, f.name)
}
