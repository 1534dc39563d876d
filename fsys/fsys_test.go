package fsys_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
)

func TestErrorsKeepTheirCode(t *testing.T) {
	err := fsys.Wrap(fsys.Internal, "reading the store", fsys.E(fsys.NoSpace, "4 KiB wanted"))
	require.Equal(t, fsys.NoSpace, fsys.CodeOf(err))
	require.ErrorIs(t, err, fsys.NoSpace)
	require.Equal(t, "reading the store: 4 KiB wanted", fsys.ReasonOf(err))
	require.Equal(t, "No space left on device: reading the store: 4 KiB wanted", err.Error())
	require.NoError(t, fsys.Wrap(fsys.Internal, "x", nil))

	for want, err := range map[fsys.Code]error{
		fsys.Canceled:   context.Canceled,
		fsys.Timeout:    context.DeadlineExceeded,
		fsys.NotExist:   &fs.PathError{Err: os.ErrNotExist},
		fsys.NoSpace:    &os.PathError{Err: syscall.ENOSPC},
		fsys.NotEmpty:   syscall.ENOTEMPTY,
		fsys.Internal:   errors.New("who knows"),
		fsys.Permission: fmt.Errorf("outer: %w", fsys.Permission),
	} {
		require.Equal(t, want, fsys.CodeOf(err), "%v", err)
	}
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EPERM, syscall.EACCES} {
		err := &os.PathError{Err: errno}
		require.Equal(t, fsys.Permission, fsys.CodeOf(err), "%v", err)
		require.Equal(t, fsys.Permission, fsys.CodeOfErrno(uint32(errno)), "%v", err)
	}
	require.Equal(t, "who knows", fsys.ReasonOf(errors.New("who knows")))
	require.Empty(t, fsys.ReasonOf(fsys.Permission))
}

func TestCodesAreDistinct(t *testing.T) {
	names, texts, errnos := map[string]bool{}, map[string]bool{}, map[uint32]bool{}
	for _, c := range fsys.Codes() {
		require.NotEmpty(t, c.Text())
		require.False(t, names[c.String()] || texts[c.Text()] || errnos[c.Errno()], "%v", c)
		names[c.String()], texts[c.Text()], errnos[c.Errno()] = true, true, true
		require.Equal(t, c, fsys.CodeOfErrno(c.Errno()))
		require.Equal(t, c, fsys.CodeNamed(c.String(), fsys.Internal))
		require.GreaterOrEqual(t, c.HTTP(), 400)
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]error{
		"a": nil, "a b\n": nil, "é": nil, strings.Repeat("n", 255): nil, "...": nil,
		"": fsys.Invalid, ".": fsys.Invalid, "..": fsys.Invalid, "a/b": fsys.Invalid, "a\x00": fsys.Invalid,
		"\xff": fsys.Invalid, strings.Repeat("n", 256): fsys.NameTooLong,
	} {
		err := fsys.CheckName(name)
		if want == nil {
			require.NoError(t, err, "%q", name)
		} else {
			require.ErrorIs(t, err, want, "%q", name)
		}
	}
}

func TestTable(t *testing.T) {
	x := fsys.Const("x\n")
	plain := fsys.NewTable(fsys.Entry{Name: "x", Node: x})
	ctx := t.Context()
	_, err := fsys.Mkdir(ctx, plain, "d", 0o755)
	require.ErrorIs(t, err, fsys.Permission)
	_, err = fsys.Mkdir(ctx, plain, "x", 0o755)
	require.ErrorIs(t, err, fsys.Exist)
	_, _, err = fsys.Create(ctx, x, "f", 0o644, fsys.Write)
	require.ErrorIs(t, err, fsys.NotDir)
	require.ErrorIs(t, fsys.Truncate(ctx, plain, 0), fsys.IsDir)
	require.ErrorIs(t, fsys.Remove(ctx, plain), fsys.Permission)
	_, err = plain.Open(ctx, fsys.Write)
	require.ErrorIs(t, err, fsys.IsDir)
	require.Panics(t, func() { fsys.NewTable(fsys.Entry{Name: "x", Node: x}, fsys.Entry{Name: "x", Node: x}) })

	live := fsys.NewTableWith(dirs{"x": x, "b": x}, fsys.Entry{Name: "x", Node: x})
	list, err := fsys.List(ctx, live)
	require.NoError(t, err)
	require.Len(t, list, 2, "a fixed name hides one of the set")
	_, err = fsys.Mkdir(ctx, live, "new", 0o755)
	require.NoError(t, err)
	_, err = fsys.Walk(ctx, live, "new")
	require.NoError(t, err)
	info, err := live.Stat(ctx)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Perm)
}

type dirs map[string]fsys.Node

func (d dirs) Walk(_ context.Context, name string) (fsys.Node, error) {
	if n := d[name]; n != nil {
		return n, nil
	}
	return nil, fsys.NotExist
}

func (d dirs) List(context.Context) (list []fsys.Entry, _ error) {
	for name, n := range d {
		list = append(list, fsys.Entry{Name: name, Node: n})
	}
	return list, nil
}

func (d dirs) Mkdir(_ context.Context, name string, _ fs.FileMode) (fsys.Node, error) {
	d[name] = fsys.NewTable()
	return d[name], nil
}
