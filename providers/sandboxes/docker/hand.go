package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// handPrefix begins the name of every hand, so that those which a crash left
// are found. They have no label, for that would become one of the image.
func (p *Provider) handPrefix() string { return "agent9-hand-" + sum(p.config.Owner)[:12] + "-" }

// withHand makes a container of an image, which is never started and only there
// to copy files by, gives its name to f, and removes it.
func (p *Provider) withHand(ctx context.Context, image string, mounts []mount.Mount, f func(ctx context.Context, name string) error) (err error) {
	ctx, done := outliving(ctx)
	defer done()
	name := p.handPrefix() + random()
	p.made.set(name, true) // List leaves it alone
	defer p.made.forget(name)
	_, err = p.api.ContainerCreate(ctx,
		&container.Config{Image: image, Entrypoint: []string{"never"}},
		&container.HostConfig{NetworkMode: "none", Mounts: mounts}, nil, nil, name)
	if err != nil {
		return err
	}
	defer func() {
		gone := p.api.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil {
			err = gone
		}
	}()
	return f(ctx, name)
}

// put copies the archive to the top of a container or of a volume in it.
func (p *Provider) put(ctx context.Context, name, path string, a *archive) error {
	if err := a.w.Close(); err != nil {
		return err
	}
	return p.api.CopyToContainer(ctx, name, path, &a.data, container.CopyToContainerOptions{AllowOverwriteDirWithFile: true})
}

// archive is a tar file that is being written.
type archive struct {
	data bytes.Buffer
	w    *tar.Writer
	now  time.Time
}

func newArchive() *archive {
	a := &archive{now: time.Now()}
	a.w = tar.NewWriter(&a.data)
	return a
}

// dir adds a directory, which belongs to user and group id.
func (a *archive) dir(name string, mode int64, id int) error {
	return a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: id, Gid: id, ModTime: a.now})
}

// file adds a file of root's.
func (a *archive) file(name string, mode int64, data []byte) error {
	err := a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: a.now})
	if err == nil {
		_, err = a.w.Write(data)
	}
	return err
}
