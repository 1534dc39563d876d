package containers

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
)

// request is what is written to new.
type request struct {
	Image     string                `json:"image"`
	Commands  []command             `json:"commands"`
	Workdir   string                `json:"workdir"`
	Env       map[string]work.Value `json:"env"`
	Repo      *repo                 `json:"repo"`
	Files     map[string]*contents  `json:"files"`
	Limits    asked                 `json:"limits"`
	Keep      bool                  `json:"keep"`
	GoOn      bool                  `json:"continue_on_error"`
	Workspace workspaceName         `json:"workspace"`
	Provider  string                `json:"provider"`
	MaxCost   *budget.Micros        `json:"max_cost_microusd"`
	Key       *string               `json:"idempotency_key"`
}

// asked are the limits that a request names.
type asked struct {
	Time    *int64      `json:"time_s"`
	Memory  *int64      `json:"memory_mb"`
	Disk    *int64      `json:"disk_mb"`
	CPUs    *Thousandth `json:"cpus"`
	PIDs    *int64      `json:"pids"`
	Network *bool       `json:"network"`
}

// command is one to run: a line for the shell, or a program and its arguments.
type command struct {
	Shell   string            `json:"command,omitempty"`
	Argv    []string          `json:"argv,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
	// Stdin is what the command reads: text, true for what is written to its
	// file, false for nothing.
	Stdin *input `json:"stdin,omitempty"`
	TTY   *tty   `json:"tty,omitempty"`
	Time  int64  `json:"time_s,omitempty"` // 0: the session's
}

func (c *command) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &c.Shell)
	}
	type plain command
	return strictly(b, (*plain)(c))
}

// input is a string or a truth value.
type input struct {
	Text *string
	Open bool
}

func (in *input) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &in.Text)
	}
	if err := json.Unmarshal(b, &in.Open); err != nil {
		return fmt.Errorf("stdin is text, true or false, not %.40s", b)
	}
	return nil
}

func (in input) MarshalJSON() ([]byte, error) {
	if in.Text != nil {
		return json.Marshal(*in.Text)
	}
	return json.Marshal(in.Open)
}

// tty is the size of a terminal; true is the usual one.
type tty sandboxes.Size

func (t *tty) UnmarshalJSON(b []byte) error {
	t.Rows, t.Cols = 24, 80
	if string(b) == "true" {
		return nil
	}
	if err := strictly(b, (*sandboxes.Size)(t)); err != nil {
		return fmt.Errorf("tty is true, or has rows and cols, not %.40s", b)
	}
	return nil
}

// contents are those of a file: text, or bytes as base64.
type contents []byte

func (c *contents) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err == nil {
		*c = contents(text)
		return nil
	}
	var coded struct {
		Base64 *string `json:"base64"`
	}
	if err := strictly(b, &coded); err != nil || coded.Base64 == nil {
		return fmt.Errorf("a file is text, or has base64, not %.40s", b)
	}
	data, err := base64.StdEncoding.DecodeString(*coded.Base64)
	*c = data
	return err
}

// workspaceName is the name of a workspace that persists; true is one that is
// called default.
type workspaceName string

func (w *workspaceName) UnmarshalJSON(b []byte) error {
	var is bool
	if json.Unmarshal(b, &is) == nil {
		if *w = ""; is {
			*w = "default"
		}
		return nil
	}
	var name string
	if json.Unmarshal(b, &name) != nil || checkWorkspace(name) != nil {
		return fmt.Errorf("workspace is a name of up to 64 letters, digits, - and _, or true, not %.80s", b)
	}
	*w = workspaceName(name)
	return nil
}

func checkWorkspace(name string) error {
	ok := name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
	if !ok {
		return fsys.E(fsys.Invalid, "the name of a workspace has 1 to 64 letters, digits, - and _")
	}
	return nil
}

// submission is a request as it was written, understood.
type submission struct {
	raw   []byte
	req   request
	key   string
	hash  string // of everything but the key
	serve Serve  // nil: Config.Serve
}

// maxCommands bounds what one request can have of anything.
const maxCommands = 256

// parseSubmission reads a request: strict JSON, or one line for the shell.
func parseSubmission(raw []byte) (*submission, error) {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return nil, fsys.E(fsys.Invalid, "the request is empty")
	}
	sub := &submission{raw: raw}
	if text[0] != '{' && !fsys.IsArray(text) {
		sub.req.Commands = []command{{Shell: string(raw)}}
		sub.hash = hash(raw)
		return sub, sub.req.check()
	}
	if err := strictly(text, &sub.req); err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the request", err)
	}
	if k := sub.req.Key; k != nil {
		if sub.key = *k; sub.key == "" || len(sub.key) > fsys.MaxName {
			return nil, fsys.E(fsys.Invalid, "idempotency_key must be a string of 1 to 255 bytes")
		}
	}
	if err := sub.req.check(); err != nil {
		return nil, err
	}
	var err error
	sub.hash, err = canonicalHash(text)
	return sub, err
}

func (r *request) check() error {
	switch {
	case len(r.Commands) == 0 && !r.Keep && r.Repo == nil && len(r.Files) == 0:
		return fsys.E(fsys.Invalid, "the request has nothing to do: give commands, or keep to leave the session open")
	case len(r.Commands) > maxCommands:
		return fsys.E(fsys.Invalid, fmt.Sprintf("a request has up to %d commands", maxCommands))
	case r.MaxCost != nil && (*r.MaxCost < 0 || *r.MaxCost > budget.Most):
		return fsys.E(fsys.Invalid, fmt.Sprintf("max_cost_microusd must be a whole number from 0 to %d", budget.Most))
	case strings.ContainsAny(r.Image+r.Workdir, "\x00\n") || strings.HasPrefix(r.Image, "-"):
		return fsys.E(fsys.Invalid, "image or workdir is not one that there can be")
	}
	for k, v := range r.Env {
		if err := checkEnv(map[string]string{k: v.Text}); err != nil {
			return err
		}
	}
	for i := range r.Commands {
		c := &r.Commands[i]
		if c.TTY != nil || c.Stdin != nil && c.Stdin.Open {
			return fsys.E(fsys.Invalid, "a terminal and an open stdin are for exec/new, not for commands")
		}
		if err := c.check(); err != nil {
			return fsys.Wrap(fsys.Invalid, fmt.Sprintf("command %d", i+1), err)
		}
	}
	for name := range r.Files {
		if name == "" || name == "." || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
			return fsys.E(fsys.Invalid, fmt.Sprintf("files: %.80q is not a path below the workspace", name))
		}
	}
	if r.Repo != nil {
		return r.Repo.check()
	}
	return nil
}

func (c *command) check() error {
	switch {
	case (c.Shell == "") == (len(c.Argv) == 0):
		return fsys.E(fsys.Invalid, "give command, a line for the shell, or argv, a program and its arguments")
	case len(c.Argv) > 0 && c.Argv[0] == "":
		return fsys.E(fsys.Invalid, "argv begins with the name of a program")
	case slices.ContainsFunc(append(c.Argv, c.Shell, c.Workdir), func(s string) bool { return strings.ContainsRune(s, 0) }):
		return fsys.E(fsys.Invalid, "a command cannot have a byte that is 0")
	case c.Time < 0:
		return fsys.E(fsys.Invalid, "time_s is a number of seconds")
	}
	return checkEnv(c.Env)
}

func checkEnv(env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return fsys.E(fsys.Invalid, fmt.Sprintf("env: %.80q cannot be the name of a variable, or its value has a byte that is 0", k))
		}
	}
	return nil
}

// argv is what runs c.
func (c *command) argv() []string {
	if c.Shell != "" {
		return []string{"sh", "-c", c.Shell}
	}
	return c.Argv
}

// String is c as results and records show it.
func (c *command) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return strings.Join(c.Argv, " ")
}

// canonicalHash tells apart requests that differ in more than white space and
// the order of fields.
func canonicalHash(text []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any // only to bring them in order
	if err := d.Decode(&fields); err != nil {
		return "", fsys.Wrap(fsys.Invalid, "not JSON", err)
	}
	delete(fields, "idempotency_key")
	return hash(fsys.Line(fields)), nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
