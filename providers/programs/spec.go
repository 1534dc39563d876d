package programs

import (
	"fmt"
	"net/url"
	"strings"

	"agent9/fsys"
)

// A Spec is the field program of an agent's config: exactly one of its kinds.
type Spec struct {
	Exec      string     `json:"exec,omitempty"` // a command for sh -c
	HTTP      *HTTP      `json:"http,omitempty"`
	Go        string     `json:"go,omitempty"` // the name under which an Agent was compiled in
	Container *Container `json:"container,omitempty"`

	Dir   string            `json:"dir,omitempty"`   // exec: where to run; default a fresh directory
	Env   map[string]string `json:"env,omitempty"`   // exec, container: more variables
	Mount bool              `json:"mount,omitempty"` // exec: mount the namespace at AGENT9_MOUNT
}

// HTTP is a program that is asked over HTTP.
type HTTP struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Secret  *Secret           `json:"secret,omitempty"`
}

// A Secret is a header whose value is in the agent's secrets.
type Secret struct {
	Header string `json:"header,omitempty"` // default Authorization
	Name   string `json:"name"`             // of the file in secrets/
	Prefix string `json:"prefix,omitempty"` // before the value, such as "Bearer "
}

// A Container is a program in a container of the agent's: see /containers.
type Container struct {
	Image    string   `json:"image,omitempty"`
	Command  []string `json:"command"`
	Provider string   `json:"provider,omitempty"`
	Workdir  string   `json:"workdir,omitempty"`
	MemoryMB int64    `json:"memory_mb,omitempty"`
	Network  bool     `json:"network,omitempty"`
}

func invalid(format string, args ...any) error {
	return fsys.E(fsys.Invalid, "program: "+fmt.Sprintf(format, args...))
}

// Check reports what is wrong with s, as far as it can be seen.
func (s *Spec) Check() error {
	var kinds []string
	for _, k := range []struct {
		name  string
		given bool
	}{{"exec", s.Exec != ""}, {"http", s.HTTP != nil}, {"go", s.Go != ""}, {"container", s.Container != nil}} {
		if k.given {
			kinds = append(kinds, k.name)
		}
	}
	switch {
	case len(kinds) == 0:
		return invalid("want one of exec, http, go, container; leave program out to have none")
	case len(kinds) > 1:
		return invalid("%s are given; want one", strings.Join(kinds, " and "))
	case s.Exec != "" && strings.TrimSpace(s.Exec) == "":
		return invalid("exec is empty")
	case s.Exec == "" && (s.Dir != "" || s.Mount):
		return invalid("dir and mount are for exec")
	case s.Exec == "" && s.Container == nil && len(s.Env) > 0:
		return invalid("env is for exec and container")
	case s.Container != nil && len(s.Container.Command) == 0:
		return invalid("container has no command")
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00 ") || strings.HasPrefix(name, "AGENT9_") {
			return invalid("env: %q cannot be set", name)
		}
	}
	if s.HTTP != nil {
		return s.HTTP.check()
	}
	return nil
}

func (h *HTTP) check() error {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return invalid("http: url must be http://… or https://…")
	case u.User != nil:
		return invalid("http: url has a password; use secret")
	case h.Secret != nil && h.Secret.Name == "":
		return invalid("http: secret needs the name of a file in secrets/")
	}
	return nil
}
