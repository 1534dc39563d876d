package tools

import (
	"fmt"
	"strings"

	"agent9/fsys"
	provider "agent9/providers/tools"
)

// A refused tool has no file.
type refused struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// A named tool is one with the name of its directory.
type named struct {
	file string
	provider.Tool
}

// name gives each tool the name of its directory.
func name(all []provider.Tool) (shown []named, not []refused) {
	taken := map[string]bool{}
	for _, t := range all {
		file := escape(t.Name)
		err := fsys.CheckName(file)
		if err == nil && taken[file] {
			err = fsys.E(fsys.Exist, "another tool has this name")
		}
		if err != nil {
			not = append(not, refused{short(t.Name), reasonOf(err)})
			continue
		}
		taken[file] = true
		shown = append(shown, named{file, t})
	}
	return shown, not
}

func reasonOf(err error) string {
	if r := fsys.ReasonOf(err); r != "" {
		return r
	}
	return fsys.CodeOf(err).Text()
}

func short(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// escape returns name as that of a file.
func escape(name string) string {
	switch name {
	case schemaFile, statusFile, ".", "..":
		return fmt.Sprintf("%%%02X", name[0]) + name[1:]
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || c == '/' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
