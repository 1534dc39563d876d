// Package bundle reads and writes the file in which an agent travels from one
// daemon to another. It is a tar archive, in this order:
//
//	manifest.json          what this is: see [Manifest]
//	README                 the same, for a person
//	records/<part>.jsonl   what a service of the agent has stored, a record a line
//	keys.jsonl             only if asked for: what opens with a passphrase
//	manifest.sha256        of manifest.json, in hex: the bundle is whole
//
// A record is a JSON object: key, relative to the part, and its value, which
// is text, or base64 if it is not UTF-8. So is the key: key64. Keys ascend.
// The manifest has the size and SHA-256 of every member but itself and the
// last, so a bundle that was cut off or damaged is noticed before any of it is
// used.
package bundle

import (
	"encoding/json"
	"fmt"
	"strings"

	"agent9/fsys"
)

// Format is the version of what Write writes, and the newest that Open reads.
const Format = 1

// A Manifest says what is in a bundle.
type Manifest struct {
	Format   int      `json:"format"`
	Agent9   string   `json:"agent9"` // the version that wrote it
	Name     string   `json:"name"`
	Pubkey   string   `json:"pubkey"`
	Exported string   `json:"exported"`
	Keys     bool     `json:"keys"` // the private key and the secrets are in it, sealed
	Members  []Member `json:"members"`
}

// A Member is a file in the archive.
type Member struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Records int64  `json:"records,omitempty"`
}

// The names in the archive.
const (
	manifestName = "manifest.json"
	readmeName   = "README"
	keysName     = "keys.jsonl"
	sealName     = "manifest.sha256"
	recordsDir   = "records/"
	recordsExt   = ".jsonl"
)

// The most that a bundle has. A member is below what a tar header can say.
const (
	maxManifest = 1 << 20
	maxMembers  = 1000
	maxMember   = 8<<30 - 1
)

func memberOf(part string) string { return recordsDir + part + recordsExt }

// partOf returns the part whose records are in the member called name.
func partOf(name string) (part string, ok bool) {
	part, ok = strings.CutPrefix(name, recordsDir)
	if ok {
		part, ok = strings.CutSuffix(part, recordsExt)
	}
	return part, ok && part != "" && !strings.Contains(part, "/")
}

func invalid(format string, args ...any) error {
	return fsys.E(fsys.Invalid, fmt.Sprintf(format, args...))
}

// parseManifest decodes a manifest strictly, but for one from a newer version,
// of which it reads no more than that.
func parseManifest(doc []byte) (Manifest, error) {
	var is struct {
		Format int    `json:"format"`
		Agent9 string `json:"agent9"`
	}
	if err := json.Unmarshal(doc, &is); err != nil || is.Format < 1 {
		return Manifest{}, invalid("this is not a bundle: its manifest.json does not say which format it has")
	}
	if is.Format > Format {
		return Manifest{}, fsys.E(fsys.Unsupported, fmt.Sprintf("this bundle has format %d, written by agent9 %q, and this daemon reads %d at most: use a newer one",
			is.Format, is.Agent9, Format))
	}
	var m Manifest
	if err := fsys.Strictly(doc, &m); err != nil {
		return m, invalid("the bundle is damaged: manifest.json: %s", err.Error())
	}
	return m, m.check()
}

func (m Manifest) check() error {
	if len(m.Members) > maxMembers {
		return invalid("the bundle has more than %d members", maxMembers)
	}
	seen := map[string]bool{}
	for _, f := range m.Members {
		_, isPart := partOf(f.Name)
		switch {
		case !isPart && f.Name != readmeName && (f.Name != keysName || !m.Keys):
			return invalid("the bundle has a member that does not belong there: %q", f.Name)
		case seen[f.Name]:
			return invalid("the bundle has %q twice", f.Name)
		case f.Size < 0 || f.Size > maxMember:
			return invalid("the bundle says that %q has %d bytes", f.Name, f.Size)
		}
		seen[f.Name] = true
	}
	if m.Keys != seen[keysName] {
		return invalid("the bundle is damaged: its manifest promises keys, and there are none")
	}
	return nil
}

// readme is the manifest for a person.
func (m Manifest) readme() []byte {
	keys := "The private key and the secrets are not in it."
	if m.Keys {
		keys = "The private key and the secrets are in keys.jsonl, sealed under a passphrase\n(Argon2id, XChaCha20-Poly1305)."
	}
	return fmt.Appendf(nil, `This is the agent %q of agent9, as it was at %s.

public key  %s
written by  agent9 %s, format %d

%s

Put it into a daemon with
    agentctl import < this.tar
or look into it: tar xf this.tar; records/*.jsonl have a JSON object a line,
key and value of what a service of the agent has stored.
`, m.Name, m.Exported, m.Pubkey, m.Agent9, m.Format, keys)
}
