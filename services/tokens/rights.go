package tokens

import (
	"slices"
	"strings"

	"agent9/fsys"
)

// Rights say what a token may do with each part of its agent's tree. The zero
// value allows nothing. In text they are parts with commas between them, each
// `r` (read), `w` (write), `rw` or `-` (neither), for the whole tree or, as
// PATH:rw, for a path and what is below it; the longest path decides:
//
//	rw                 everything
//	r,/inbox:rw        look at everything, send messages
//	/inbox:w           send messages, and nothing else
//	rw,/identity:-     everything, but not in the agent's name
type Rights struct {
	rules []rule // by path, ascending; the whole tree is ""
}

type rule struct {
	path        string // "" or begins with a slash and does not end with one
	read, write bool
}

const rightsForm = "want r, w or rw for the whole tree, or PATH:rw as in /inbox:rw, with commas between"

// ParseRights reads what [Rights.String] writes, parts in any order.
func ParseRights(s string) (Rights, error) {
	var r Rights
	for part := range strings.SplitSeq(s, ",") {
		x, err := parseRule(strings.TrimSpace(part))
		if err != nil {
			return Rights{}, err
		}
		at, twice := slices.BinarySearchFunc(r.rules, x.path, func(r rule, path string) int { return strings.Compare(r.path, path) })
		if twice {
			return Rights{}, fsys.E(fsys.Invalid, "rights: there are two parts for "+x.where())
		}
		r.rules = slices.Insert(r.rules, at, x)
	}
	if !r.any() {
		return Rights{}, fsys.E(fsys.Invalid, "rights: they would open nothing; "+rightsForm)
	}
	return r, nil
}

func parseRule(s string) (x rule, err error) {
	mode := s
	if at := strings.LastIndexByte(s, ':'); at >= 0 {
		mode = s[at+1:]
		if x.path, err = parsePath(s[:at]); err != nil {
			return x, err
		}
	}
	switch mode {
	case "-":
	case "r":
		x.read = true
	case "w":
		x.write = true
	case "rw":
		x.read, x.write = true, true
	default:
		return x, fsys.E(fsys.Invalid, "rights: "+quote(s)+" is not a part of them; "+rightsForm)
	}
	return x, nil
}

// parsePath returns the path of a rule; that of / is empty.
func parsePath(s string) (string, error) {
	path, slash := strings.CutPrefix(strings.TrimSuffix(s, "/"), "/")
	if s == "/" {
		return "", nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if !slash || fsys.CheckName(name) != nil {
			return "", fsys.E(fsys.Invalid, "rights: "+quote(s)+" is not the path of a mount, such as /inbox")
		}
	}
	return "/" + path, nil
}

// At reports what may be done at path, which begins with a slash.
func (r Rights) At(path string) (read, write bool) {
	path = strings.TrimSuffix(path, "/")
	for _, x := range slices.Backward(r.rules) { // of two prefixes of path, the longer one comes first
		if within(path, x.path) {
			return x.read, x.write
		}
	}
	return false, false
}

// Paths returns the paths that have a part of their own, but for the whole
// tree. Rights hold for mounts: who issues a token sees to it that each of
// these is one, so that no part is without effect.
func (r Rights) Paths() (paths []string) {
	for _, x := range r.rules {
		if x.path != "" {
			paths = append(paths, x.path)
		}
	}
	return paths
}

// within reports whether path is top or below it.
func within(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '/')
}

func (r Rights) any() bool {
	return slices.ContainsFunc(r.rules, func(x rule) bool { return x.read || x.write })
}

// String returns the rights in the one form that equal rights have.
func (r Rights) String() string {
	parts := make([]string, len(r.rules))
	for i, x := range r.rules {
		parts[i] = x.String()
	}
	return strings.Join(parts, ",")
}

func (x rule) String() string {
	mode := "-"
	switch {
	case x.read && x.write:
		mode = "rw"
	case x.read:
		mode = "r"
	case x.write:
		mode = "w"
	}
	if x.path == "" {
		return mode
	}
	return x.path + ":" + mode
}

func (x rule) where() string {
	if x.path == "" {
		return "the whole tree"
	}
	return x.path
}

func (r Rights) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r *Rights) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRights(string(b))
	return err
}
