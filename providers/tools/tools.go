// Package tools says what a server of tools is to the services, whatever it
// speaks. A driver starts one, or reaches it, and lists and calls its tools.
package tools

import (
	"context"
	"encoding/json"

	"agent9/providers/scrub"
)

// The most that a driver takes of a server.
const (
	MaxTools  = 1000    // that are listed
	MaxSchema = 4 << 20 // bytes of all that is said of them
	MaxResult = 1 << 20 // bytes of the result of a call
)

// A Spec is a server: a Command that is run, or a URL.
type Spec struct {
	Command []string
	Dir     string            // where it runs; empty is /
	Env     map[string]string // besides PATH, HOME and the like
	URL     string
	Headers map[string]string // of each request
	// Hidden takes the secrets of Env and Headers out of all that the server
	// says; it may be nil.
	Hidden *scrub.Scrubber
}

// About is what a server says of itself.
type About struct {
	Name         string `json:"name"`
	Version      string `json:"version,omitempty"`
	Instructions string `json:"instructions,omitempty"`
}

// A Tool is what a server offers. Schema is all that is said of it, as JSON:
// name, description, inputSchema and what else there is.
type Tool struct {
	Name   string
	Schema json.RawMessage
}

// A Provider starts or reaches servers.
type Provider interface {
	// Start returns when the server is ready. It lives until Close, whatever
	// becomes of ctx then.
	Start(ctx context.Context, spec Spec) (Session, error)
}

// A Session is a server that is in use.
type Session interface {
	About() About
	// List returns the tools as they are now.
	List(ctx context.Context) ([]Tool, error)
	// Call returns the result as JSON, also if that says that the tool failed.
	// args is an object.
	Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error)
	// Done is closed when the server has ended, and Err then says why.
	Done() <-chan struct{}
	Err() error
	// Close ends the server, at once if ctx has ended, and returns when it,
	// and all that it started and did not detach, is gone.
	Close(ctx context.Context)
}
