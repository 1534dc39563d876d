package skills

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"agent9/fsys"
)

// A Header is what a skill says of itself.
type Header struct {
	Name        string
	Description string
}

const (
	fence          = "---"
	maxName        = 64
	maxDescription = 1024
)

// ParseHeader returns the header of a skill, or says what is wrong with it.
// Lines are `key: value`; a value may stand in quotes, or go on in lines that
// begin with white space.
func ParseHeader(skill []byte) (Header, error) {
	if !utf8.Valid(skill) {
		return Header{}, fsys.E(fsys.Invalid, "a skill is UTF-8 text")
	}
	fields, err := headerFields(strings.TrimPrefix(string(skill), "\ufeff"))
	if err != nil {
		return Header{}, err
	}
	h := Header{Name: fields["name"], Description: fields["description"]}
	for _, f := range []struct {
		key, value string
		most       int
	}{{"name", h.Name, maxName}, {"description", h.Description, maxDescription}} {
		switch {
		case f.value == "":
			return Header{}, fsys.E(fsys.Invalid, "the header has no "+f.key)
		case utf8.RuneCountInString(f.value) > f.most:
			return Header{}, fsys.E(fsys.Invalid, fmt.Sprintf("the %s in the header is longer than %d letters", f.key, f.most))
		}
	}
	return h, nil
}

// headerFields returns the last value of every key between the fences.
func headerFields(text string) (map[string]string, error) {
	fields := map[string]string{}
	key, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case n == 1 && line != fence:
			return nil, fsys.E(fsys.Invalid, "the first line of a skill is "+fence+", and begins its header")
		case n == 1, line == "", line[0] == '#':
		case line == fence:
			for k, v := range fields {
				fields[k] = unquoted(v)
			}
			return fields, nil
		case line[0] == ' ' || line[0] == '\t':
			if key == "" {
				return nil, fsys.E(fsys.Invalid, fmt.Sprintf("line %d of the header goes on with nothing", n))
			}
			fields[key] = strings.TrimSpace(fields[key] + " " + strings.TrimSpace(line))
		default:
			k, value, ok := strings.Cut(line, ":")
			if key = strings.TrimSpace(k); !ok || key == "" {
				return nil, fsys.E(fsys.Invalid, fmt.Sprintf("line %d of the header is not of the form key: value", n))
			}
			if value = strings.TrimSpace(value); value == ">" || value == "|" || value == ">-" || value == "|-" {
				value = ""
			}
			fields[key] = value
		}
	}
	if n == 0 {
		return nil, fsys.E(fsys.Invalid, "the skill is empty")
	}
	return nil, fsys.E(fsys.Invalid, "the header has no end: a line "+fence)
}

func unquoted(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
