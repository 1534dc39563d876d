package mcp

import (
	"bytes"
	"io"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys/export/web"
)

// The names of URLs.
const (
	endpoint  = "mcp"
	agentsDir = "agents"
)

// App returns what answers at /mcp, with the tree of the agent that the token
// is for, or all that the operator sees, and at /agents/NAME/mcp.
//
// Each request is a session of its own, with what its own sender may see:
// no state is kept between two of them.
func App(version string) func(path []string) *web.App {
	known := sdk.NewSchemaCache()
	return func(path []string) *web.App {
		agent, ok := split(path)
		if !ok {
			return nil
		}
		return &web.App{Refuse: web.Refuse, Serve: func(s *web.Session) { serve(s, agent, version, known) }}
	}
}

// split reports whether path is that of a server, and which agent it names.
func split(path []string) (agent string, ok bool) {
	switch {
	case len(path) == 1 && path[0] == endpoint:
		return "", true
	case len(path) == 3 && path[0] == agentsDir && path[2] == endpoint:
		return path[1], true
	}
	return "", false
}

func serve(s *web.Session, agent, version string, known schemas) {
	end := s.Begin("MCP")
	err := answerTo(s, agent, version, known)
	end(err)
	if err != nil {
		s.Fail(err)
	}
}

// decoded is about how many times as much as its text a JSON value takes, with
// what is made of it; read is that of what a tool has read, with the answer.
const (
	decoded = 3
	read    = 4
)

func answerTo(s *web.Session, agent, version string, known schemas) error {
	if agent == "" {
		agent = s.Agent
	}
	root := s.Root
	if agent != "" {
		var err error
		if root, err = s.Walk(s.R.Context(), agentsDir, agent); err != nil {
			return err
		}
		if _, err := root.Stat(s.R.Context()); err != nil {
			return err
		}
	}
	if s.R.Method == http.MethodPost {
		body, err := s.Body()
		if err != nil {
			return err
		}
		if err := s.Keep(decoded * int64(len(body))); err != nil {
			return err
		}
		s.R.Body = io.NopCloser(bytes.NewReader(body))
	}
	t := &tree{root: Fixed(root), life: s.R.Context(), brief: true, part: s.Part}
	server := t.serve(version, known)
	sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless:                    true,
		DisableLocalhostProtection:   true, // package web has asked whom the request is for
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          -1, // Body has a limit
	}).ServeHTTP(s.W, s.R)
	return nil
}
