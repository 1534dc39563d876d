package mcp

import (
	"context"
	"net/url"
	"path"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
)

const (
	scheme   = "agent9"
	template = scheme + ":///{+path}{?offset}"
)

// listed is how many resources are listed, and listedBelow how many of one
// directory.
const (
	listed      = 500
	listedBelow = 50
)

func (t *tree) addResources() {
	t.server.AddResource(&sdk.Resource{URI: uriOf("/"), Name: "/", MIMEType: mimeDir}, t.readResource)
	t.server.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: template, Name: "file",
		Description: "A file, directory or stream of the tree. What is long comes in parts: next_offset in _meta says where to go on.",
	}, t.readResource)
}

func uriOf(p string) string {
	u := url.URL{Scheme: scheme, Path: clean(p)}
	return scheme + "://" + u.EscapedPath()
}

// placeOf returns the path and the offset in a URI.
func placeOf(uri string) (p string, off int64, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme || u.Host != "" {
		return "", 0, fsys.E(fsys.Invalid, "the URI of a resource must be "+scheme+":///PATH")
	}
	if text := u.Query().Get("offset"); text != "" {
		if off, err = strconv.ParseInt(text, 10, 64); err != nil || off < 0 {
			return "", 0, fsys.E(fsys.Invalid, "offset must be a number of bytes")
		}
	}
	return u.Path, off, nil
}

const (
	mimeDir   = "inode/directory"
	mimeText  = "text/plain"
	mimeBytes = "application/octet-stream"
)

// list returns what is at the top and in the directories there; what takes
// requests is no resource.
func (t *tree) list(ctx context.Context) ([]*sdk.Resource, error) {
	root, err := t.root(ctx)
	if err != nil {
		return nil, err
	}
	all := []*sdk.Resource{{URI: uriOf("/"), Name: "/", MIMEType: mimeDir}}
	return t.listBelow(ctx, all, root, "/", 2)
}

func (t *tree) listBelow(ctx context.Context, all []*sdk.Resource, dir fsys.Node, at string, levels int) ([]*sdk.Resource, error) {
	entries, err := fsys.List(ctx, dir)
	if err != nil {
		return all, ctx.Err() // what may not be listed is not
	}
	for i, e := range entries {
		if len(all) == listed || i == listedBelow {
			break
		}
		info, err := e.Node.Stat(ctx)
		if err != nil || info.Kind == fsys.Message {
			continue
		}
		p := path.Join(at, e.Name)
		r := &sdk.Resource{URI: uriOf(p), Name: p, Size: info.Size, Description: info.Kind.String()}
		if info.Kind == fsys.Directory {
			r.MIMEType = mimeDir
		}
		all = append(all, r)
		if info.Kind == fsys.Directory && levels > 1 {
			if all, err = t.listBelow(ctx, all, e.Node, p, levels-1); err != nil {
				return all, err
			}
		}
	}
	return all, ctx.Err()
}

func (t *tree) readResource(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	p, off, err := placeOf(uri)
	if err != nil {
		return nil, told(ctx, uri, err)
	}
	c, err := t.readPart(ctx, p, off, 4*usualBytes)
	if err != nil && fsys.CodeOf(err) == fsys.IsDir {
		return t.readDir(ctx, uri, p)
	}
	if err != nil && fsys.CodeOf(err) == fsys.NotExist {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, told(ctx, p, err)
	}
	content := &sdk.ResourceContents{URI: uri, MIMEType: mimeText, Text: c.Text}
	if c.Encoding != "utf-8" {
		content = &sdk.ResourceContents{URI: uri, MIMEType: mimeBytes, Blob: c.raw}
	}
	if !c.Ended {
		content.Meta = sdk.Meta{"next_offset": c.Next, "more": c.More}
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{content}}, nil
}

// readDir returns a directory as the URIs of what is in it, one per line.
func (t *tree) readDir(ctx context.Context, uri, p string) (*sdk.ReadResourceResult, error) {
	l, err := t.ls(ctx, listArgs{at: at{p}})
	if err != nil {
		return nil, told(ctx, p, err)
	}
	var b strings.Builder
	for _, e := range l.Entries {
		b.WriteString(uriOf(path.Join(l.Path, e.Name)) + "\n")
	}
	content := &sdk.ResourceContents{URI: uri, MIMEType: "text/uri-list", Text: b.String()}
	if l.Next != "" {
		content.Meta = sdk.Meta{"more": true}
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{content}}, nil
}
