package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agent9/fsys"
)

var (
	variable = regexp.MustCompile(`\{\{([A-Z][A-Z0-9_]*)\}\}`)
	key      = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// nameVariable is the one that is always given.
const nameVariable = "NAME"

// Render returns what an agent called name gets of the files of a profile. It
// refuses when a variable is not given, or one is given that no file has, and
// says which and where.
func Render(all []File, name string, set map[string]string) ([]File, error) {
	values := maps.Clone(set)
	if values == nil {
		values = map[string]string{}
	}
	if _, ok := values[nameVariable]; ok {
		return nil, fsys.E(fsys.Invalid, "the variable NAME is the agent's name, and cannot be set")
	}
	values[nameVariable] = name
	used := map[string]bool{nameVariable: true}
	var made []File
	var missing []string
	for _, f := range all {
		if !isGiven(f.Path) {
			continue
		}
		write := func(value string) []byte { return []byte(value) }
		if isJSON(f.Data) {
			write = inJSON
		}
		data := variable.ReplaceAllFunc(f.Data, func(m []byte) []byte {
			name := string(m[2 : len(m)-2])
			value, ok := values[name]
			used[name] = true
			if what := f.Path + " needs " + string(m); !ok && !slices.Contains(missing, what) {
				missing = append(missing, what)
			}
			return write(value)
		})
		made = append(made, File{Path: f.Path, Data: data})
	}
	if len(missing) > 0 {
		return nil, fsys.E(fsys.Invalid, strings.Join(missing, ", ")+", which is not set")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !used[name] {
			return nil, fsys.E(fsys.Invalid, fmt.Sprintf("the variable %s is set, and no file has {{%[1]s}}", name))
		}
	}
	return made, nil
}

// isGiven reports whether an agent gets the file at path.
func isGiven(path string) bool {
	if path == "README" || path == "README.md" {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(name, ".") {
			return false
		}
	}
	return true
}

// isJSON reports whether file is JSON, whatever its variables stand for.
func isJSON(file []byte) bool {
	return json.Valid(variable.ReplaceAll(file, []byte("0")))
}

// inJSON returns value as it is within a JSON string.
func inJSON(value string) []byte {
	quoted := bytes.TrimSuffix(fsys.Line(value), []byte("\n"))
	return quoted[1 : len(quoted)-1]
}

// ParseSet returns the variables of words of the form KEY=VALUE.
func ParseSet(words []string) (map[string]string, error) {
	set := map[string]string{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || !key.MatchString(name) {
			return nil, fsys.E(fsys.Invalid, "a variable is set by KEY=VALUE, and KEY is made of capital letters, digits and _; not "+w)
		}
		if _, twice := set[name]; twice {
			return nil, fsys.E(fsys.Invalid, "the variable "+name+" is set twice")
		}
		set[name] = value
	}
	return set, nil
}

// A Request is what a new agent is to be, as JSON.
type Request struct {
	Name    string            `json:"name"`
	Profile string            `json:"profile,omitempty"`
	Files   map[string]string `json:"files,omitempty"` // a profile that is not kept: paths and texts
	Set     map[string]string `json:"set,omitempty"`
}

// ParseRequest decodes doc strictly.
func ParseRequest(doc []byte) (Request, error) {
	var r Request
	if err := fsys.Strictly(doc, &r); err != nil {
		return r, fsys.E(fsys.Invalid, err.Error()+"; a new agent takes name, profile or files, and set")
	}
	if r.Profile != "" && r.Files != nil {
		return r, fsys.E(fsys.Invalid, "a new agent is made from a profile or from files, not from both")
	}
	for name := range r.Set {
		if !key.MatchString(name) {
			return r, fsys.E(fsys.Invalid, "the name of a variable is made of capital letters, digits and _; not "+name)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.Files)) {
		for name := range strings.SplitSeq(path, "/") {
			if err := fsys.CheckName(name); err != nil {
				return r, fsys.Wrap(fsys.Invalid, path, err)
			}
		}
	}
	return r, nil
}

// List returns the files of a request, in the order of their paths.
func (r Request) List() []File {
	var all []File
	for _, path := range slices.Sorted(maps.Keys(r.Files)) {
		all = append(all, File{Path: path, Data: []byte(r.Files[path])})
	}
	return all
}
