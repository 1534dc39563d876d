package docker

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"agent9/fsys"
)

// fail says what went wrong in words for users of sandboxes, unless err does so.
// what is what was tried.
func (p *Provider) fail(what string, err error) error {
	if said := (*fsys.Error)(nil); err == nil || errors.As(err, &said) {
		return err
	}
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fsys.Wrap(fsys.Timeout, what, err)
	case errors.Is(err, fs.ErrPermission):
		return fsys.E(fsys.Permission, "no permission to use the container engine at "+p.api.DaemonHost()+
			"; the user that runs agentd must be in the group of that socket")
	case client.IsErrConnectionFailed(err):
		return fsys.E(fsys.Unavailable, "the container engine at "+p.api.DaemonHost()+" does not answer: "+text)
	}
	return &fsys.Error{Code: codeOf(err, text), Reason: what + ": " + text, Err: err}
}

// codeOf classifies an answer of the engine. A full disk has no status of its
// own in the API; the kernel mounts an overlay there without its work directory,
// which the engine then does not find.
func codeOf(err error, text string) fsys.Code {
	switch {
	case strings.Contains(text, "no space left on device"), strings.Contains(text, "disk quota exceeded"),
		strings.HasSuffix(text, "/work/work: no such file or directory"):
		return fsys.NoSpace
	case cerrdefs.IsNotFound(err):
		return fsys.NotExist
	case cerrdefs.IsConflict(err):
		return fsys.Busy
	case cerrdefs.IsInvalidArgument(err):
		return fsys.Invalid
	case cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err):
		return fsys.Permission
	}
	return fsys.Unavailable
}

// missing reports whether what was asked for is not on the engine.
func missing(err error) bool { return cerrdefs.IsNotFound(err) }

// conflict reports whether the engine's state does not allow what was asked.
func conflict(err error) bool { return cerrdefs.IsConflict(err) }
