package web

import (
	"context"
	"net/http"

	"agent9/fsys"
	"agent9/fsys/share"
)

// entry is a line of a directory.
type entry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Size    int64  `json:"size"`
	Perm    string `json:"perm"`
	ModTime string `json:"mtime,omitempty"`
	ETag    string `json:"etag,omitempty"`
	Unsafe  bool   `json:"unsafe,omitempty"` // see fsys.Info.Safe: mounts do not list it
}

func entryOf(name string, info fsys.Info) entry {
	e := entry{Name: name, Kind: info.Kind.String(), Size: info.Size, Perm: info.Perm.Perm().String(), ETag: etagOf(info), Unsafe: !info.Safe()}
	if !info.ModTime.IsZero() {
		e.ModTime = fsys.Stamp(info.ModTime)
	}
	return e
}

// entries returns what is in dir. What is gone before it can be looked at is
// left out.
func (s *Session) entries(ctx context.Context, dir fsys.Node) ([]entry, error) {
	list, err := fsys.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := s.Keep(share.List(list) + int64(len(list))*lineBytes); err != nil {
		return nil, err
	}
	all := make([]entry, 0, len(list))
	for _, e := range list {
		info, err := e.Stat(ctx)
		switch {
		case fsys.CodeOf(err) == fsys.NotExist:
		case err != nil:
			return nil, err
		default:
			all = append(all, entryOf(e.Name, info))
		}
	}
	return all, nil
}

// lineBytes is about what an entry of a listing takes, and again as JSON.
const lineBytes = 400

func (s *Session) list(ctx context.Context, dir fsys.Node) error {
	all, err := s.entries(ctx, dir)
	if err != nil {
		return err
	}
	return s.JSON(http.StatusOK, struct {
		Entries []entry `json:"entries"`
	}{all})
}

const jsonType = "application/json"

// JSON answers with v.
func (s *Session) JSON(status int, v any) error {
	s.W.Header().Set("Content-Type", jsonType)
	s.W.WriteHeader(status)
	if s.R.Method == http.MethodHead {
		return nil
	}
	_, err := s.W.Write(fsys.Line(v))
	return err
}
