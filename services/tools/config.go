package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/scrub"
	provider "agent9/providers/tools"
	"agent9/services/internal/work"
)

// A Server is what the configuration says of a server: a Command or a URL.
type Server struct {
	Command []string              `json:"command,omitempty"`
	Dir     string                `json:"dir,omitempty"` // where it runs; default /
	Env     map[string]work.Value `json:"env,omitempty"`
	URL     string                `json:"url,omitempty"`
	Headers map[string]work.Value `json:"headers,omitempty"`
	Idle    work.Duration         `json:"idle,omitzero"`            // until it is ended when nobody uses it; default 5m
	Timeout work.Duration         `json:"timeout,omitzero"`         // of a call; default 1m
	Calls   int                   `json:"max_calls,omitempty"`      // at once; default 16
	Price   budget.Micros         `json:"price_microusd,omitempty"` // of a call; default 0
}

// startTime is how long a server may take until it is ready.
const startTime = 30 * time.Second

func (c Server) idle() time.Duration {
	return time.Duration(cmp.Or(c.Idle, work.Duration(5*time.Minute)))
}
func (c Server) timeout() time.Duration {
	return time.Duration(cmp.Or(c.Timeout, work.Duration(time.Minute)))
}
func (c Server) calls() int { return cmp.Or(c.Calls, 16) }

// MaxServers is how many servers a configuration may name.
const MaxServers = 64

// CheckServers refuses a configuration that is none.
func CheckServers(all map[string]json.RawMessage) error {
	if len(all) > MaxServers {
		return fsys.E(fsys.Invalid, "tools: there are too many servers")
	}
	for name, raw := range all {
		err := fsys.CheckName(name)
		if err == nil {
			_, err = ParseServer(raw)
		}
		if err != nil {
			return fsys.Wrap(fsys.Invalid, "tools: "+name, err)
		}
	}
	return nil
}

// ParseServer reads what the configuration says of one server.
func ParseServer(raw []byte) (c Server, err error) {
	if err := fsys.Strictly(raw, &c); err != nil {
		return c, fsys.E(fsys.Invalid, err.Error())
	}
	switch u, err := url.Parse(c.URL); {
	case len(c.Command) == 0 && c.URL == "":
		return c, fsys.E(fsys.Invalid, "a server has a command or a url")
	case len(c.Command) > 0 && c.URL != "":
		return c, fsys.E(fsys.Invalid, "a server has a command or a url, not both")
	case len(c.Command) > 0 && c.Command[0] == "":
		return c, fsys.E(fsys.Invalid, "command begins with a program")
	case c.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""):
		return c, fsys.E(fsys.Invalid, "url is that of an http or https server")
	case c.URL != "" && (len(c.Env) > 0 || c.Dir != ""):
		return c, fsys.E(fsys.Invalid, "env and dir are for a command")
	case len(c.Command) > 0 && len(c.Headers) > 0:
		return c, fsys.E(fsys.Invalid, "headers are for a url")
	case c.Calls < 0 || c.Calls > 1000:
		return c, fsys.E(fsys.Invalid, "max_calls is from 1 to 1000")
	case c.Price < 0 || c.Price > budget.Most:
		return c, fsys.E(fsys.Invalid, "price_microusd is not negative, and not that much")
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return c, fsys.E(fsys.Invalid, "env: "+name+" is no name of a variable")
		}
	}
	for name := range c.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n\x00") {
			return c, fsys.E(fsys.Invalid, "headers: "+name+" is no name of a header")
		}
	}
	return c, nil
}

// spec is the server with its secrets.
func (s *Service) spec(ctx context.Context, c Server) (provider.Spec, error) {
	var hidden [][]byte
	defer func() {
		for _, secret := range hidden {
			clear(secret)
		}
	}()
	spec := provider.Spec{Command: c.Command, Dir: c.Dir, URL: c.URL, Env: map[string]string{}, Headers: map[string]string{}}
	for _, part := range []struct {
		from map[string]work.Value
		to   map[string]string
	}{{c.Env, spec.Env}, {c.Headers, spec.Headers}} {
		for name, v := range part.from {
			if v.Secret == "" {
				part.to[name] = v.Text
				continue
			}
			secret, err := s.opts.Secret(ctx, v.Secret, c.URL)
			if err != nil {
				return spec, err
			}
			if bytes.ContainsAny(secret, "\r\n\x00") {
				return spec, fsys.E(fsys.Invalid, "the secret "+v.Secret+" has more than one line")
			}
			part.to[name] = string(secret)
			hidden = append(hidden, secret)
		}
	}
	spec.Hidden = scrub.New(hidden...)
	return spec, nil
}
