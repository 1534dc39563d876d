package status

import (
	"testing"

	"agent9/fsys"
)

// What is wrong is said by the name of the field, as whoever wrote it knows it.
func TestParseConfigRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		`{"inbox":{"limit":"no"}}`: "inbox.limit: a whole number is expected, not a string",
		`{"accept":5}`:             "accept: an array is expected, not a number",
		`{"nonsense":1}`:           `unknown field "nonsense"; there are inbox, deadletter, accept, mounts, prompt, sessions, tools, secrets, program, tick, triggers`,
		`{"inbox":{"limit":-1}}`:   "inbox.limit must be from 1 to 1048576",
	} {
		if _, err := ParseConfig([]byte(doc)); fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != want {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}
