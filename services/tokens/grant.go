package tokens

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agent9/fsys"
)

// A Grant is what a token opens.
type Grant struct {
	ID      string // names the token; no secret
	Agent   string
	Rights  Rights
	Expires time.Time // zero: never
	Created time.Time
	Label   string // what the token is for, for people
	From    string // the token that it was made with, whose end is its end; or nothing
}

const (
	maxLabel = 128
	never    = "never"
)

// AllAgents is what stands for the agent in a token of the operator's, which
// opens the tree of the host. No agent can be called that.
const AllAgents = "*"

// hostAgents is where the tree of the host has the agents.
const hostAgents = "/agents"

// At reports what the token may do at a mount of an agent's tree: for a token
// that opens the tree of the host, what it may do with agents.
func (g Grant) At(mount string) (read, write bool) {
	if g.Agent == AllAgents {
		mount = hostAgents
	}
	return g.Rights.At(mount)
}

// atHost are the entries of the host's tree that show all agents, or say what they
// are: they need the same right at /agents.
var atHost = []string{"/backup", "/bundles", "/create", "/events", "/profiles"}

// AtHost reports what the token, which opens the tree of the host, may do at one
// of its entries.
func (g Grant) AtHost(entry string) (read, write bool) {
	read, write = g.Rights.At(entry)
	if slices.Contains(atHost, entry) {
		r, w := g.Rights.At(hostAgents)
		read, write = read && r, write && w
	}
	return read, write
}

// covers reports whether n may nothing that g may not. Rights are the same between
// the paths that they name, so that these are all that there is to compare.
func (g Grant) covers(n Grant) bool {
	mine := g.At
	switch {
	case n.Agent == g.Agent:
		mine = g.Rights.At
	case g.Agent != AllAgents:
		return false
	}
	for _, path := range append(append(n.Rights.Paths(), g.Rights.Paths()...), "") {
		read, write := mine(path)
		if r, w := n.Rights.At(path); r && !read || w && !write {
			return false
		}
	}
	return true
}

// stamp drops what fsys.TimeFormat does not keep.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (g Grant) expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// check refuses a grant that should not be made.
func (g Grant) check(now time.Time) error {
	switch {
	case fsys.CheckName(g.Agent) != nil:
		return fsys.E(fsys.Invalid, "a token is for an agent")
	case !g.Rights.any():
		return fsys.E(fsys.Invalid, "a token without rights would open nothing; "+rightsForm)
	case g.expired(now):
		return fsys.E(fsys.Invalid, "the token would have expired already")
	case len(g.Label) > maxLabel:
		return fsys.E(fsys.Invalid, "a label has at most 128 bytes")
	case !utf8.ValidString(g.Label) || strings.ContainsFunc(g.Label, unicode.IsControl):
		return fsys.E(fsys.Invalid, "a label is one line of text")
	}
	return nil
}

// grantJSON is the form of a Grant in its file, in events and in the store.
type grantJSON struct {
	ID      string `json:"id"`
	Agent   string `json:"agent"`
	Rights  Rights `json:"rights"`
	Expires string `json:"expires"` // RFC 3339, or "never"
	Created string `json:"created"`
	Label   string `json:"label,omitempty"`
	From    string `json:"from,omitempty"` // the id of the token that it was made with
}

func (g Grant) MarshalJSON() ([]byte, error) {
	expires := never
	if !g.Expires.IsZero() {
		expires = fsys.Stamp(g.Expires)
	}
	return json.Marshal(grantJSON{g.ID, g.Agent, g.Rights, expires, fsys.Stamp(g.Created), g.Label, g.From})
}

func (g *Grant) UnmarshalJSON(b []byte) error {
	var j grantJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	created, err := time.Parse(fsys.TimeFormat, j.Created)
	if err != nil {
		return err
	}
	var expires time.Time
	if j.Expires != never {
		if expires, err = time.Parse(fsys.TimeFormat, j.Expires); err != nil {
			return err
		}
	}
	*g = Grant{j.ID, j.Agent, j.Rights, expires, created, j.Label, j.From}
	return nil
}
