//go:build linux

package conformance_test

import (
	"context"
	"net"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/fsys/ninep"
)

// TestExportOfAClient shows what a 9P server exports through our own client,
// as agentctl mount does.
func TestExportOfAClient(t *testing.T) {
	for _, version := range []string{"9P2000.L", "9P2000"} {
		t.Run(version, func(t *testing.T) {
			conformance.TestExport(t, func(t *testing.T, root fsys.Node) string {
				return shownAt(t, overNinep(t, root, version))
			})
		})
	}
}

// shownAt shows root to the kernel until the test ends.
func shownAt(t *testing.T, root fsys.Node) string {
	t.Helper()
	dir := t.TempDir()
	m, err := fuse.Mount(context.Background(), root, dir, fuse.Options{})
	if fsys.CodeOf(err) == fsys.Permission || fsys.CodeOf(err) == fsys.Unavailable {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// overNinep returns root as it is at the other end of a connection.
func overNinep(t *testing.T, root fsys.Node, version string) fsys.Node {
	t.Helper()
	s := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: root}, nil
	}}
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		s.ServeConn(far)
		close(served)
	}()
	c, err := ninep.NewClient(t.Context(), near, ninep.DialVersion(version))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-served
	})
	remote, err := c.Attach(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return remote
}
