package conformance_test

import (
	"errors"
	"io"
	"net"
	"path"
	"strings"

	"9fans.net/go/plan9"
	"9fans.net/go/plan9/client"
	"github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"

	"agent9/fsys"
)

// --- 9P2000.L: hugelgupf/p9 ---------------------------------------------------

type hugelgupf struct {
	client *p9.Client
	root   p9.File
}

type hugelgupfFile struct {
	p9.File
	at int64
}

func dialHugelgupf(network, address, aname string) (library, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c, err := p9.NewClient(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	root, err := c.Attach(aname)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &hugelgupf{c, root}, nil
}

func (c *hugelgupf) walk(name string) (p9.File, error) {
	names := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	qids, f, err := c.root.Walk(names)
	if err == nil && len(qids) < len(names) { // the walk stopped, and there is no such fid
		return nil, linux.ENOENT
	}
	return f, err
}

func (c *hugelgupf) list(name string) (names []string, err error) {
	f, err := c.walk(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, _, err := f.Open(p9.ReadOnly); err != nil {
		return nil, err
	}
	for at := uint64(0); ; {
		entries, err := f.Readdir(at, 4096)
		if err != nil || len(entries) == 0 {
			return names, err
		}
		for _, e := range entries {
			names = append(names, e.Name)
			at = e.Offset
		}
	}
}

func (c *hugelgupf) open(name string, m mode) (opened, error) {
	f, err := c.walk(name)
	if err != nil {
		return nil, err
	}
	if m&truncate != 0 {
		if err := f.SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{}); err != nil {
			f.Close()
			return nil, err
		}
	}
	if _, _, err := f.Open(p9.OpenFlags(m &^ truncate)); err != nil {
		f.Close()
		return nil, err
	}
	return &hugelgupfFile{File: f}, nil
}

func (c *hugelgupf) create(name string) (opened, error) {
	dir, err := c.walk(path.Dir(name))
	if err != nil {
		return nil, err
	}
	f, _, _, err := dir.Create(path.Base(name), p9.WriteOnly, 0o644, p9.NoUID, p9.NoGID)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &hugelgupfFile{File: f}, nil
}

func (c *hugelgupf) is(err error, code fsys.Code) bool {
	var errno linux.Errno
	return errors.As(err, &errno) && uint32(errno) == code.Errno()
}

func (c *hugelgupf) hangUp() { c.client.Close() }

func (f *hugelgupfFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// --- 9P2000: 9fans.net/go ------------------------------------------------------

type nineFans struct {
	conn io.Closer
	root *client.Fsys
}

func dial9fans(network, address, aname string) (library, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c, err := client.NewConn(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	root, err := c.Attach(nil, "someone", aname)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &nineFans{conn, root}, nil
}

func (c *nineFans) list(name string) (names []string, err error) {
	f, err := c.root.Open(name, plan9.OREAD)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dirs, err := f.Dirreadall()
	for _, d := range dirs {
		names = append(names, d.Name)
	}
	return names, err
}

func (c *nineFans) open(name string, m mode) (opened, error) {
	f, err := c.root.Open(name, uint8(m))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c *nineFans) create(name string) (opened, error) {
	f, err := c.root.Create(name, plan9.OWRITE, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c *nineFans) is(err error, code fsys.Code) bool {
	return err != nil && (strings.HasPrefix(err.Error(), code.Text()) ||
		code == fsys.NotExist && strings.HasSuffix(err.Error(), "not found")) // its own words for a walk that stopped
}

func (c *nineFans) hangUp() { c.conn.Close() }
