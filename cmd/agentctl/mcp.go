package main

import (
	"context"
	"errors"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/urfave/cli/v2"

	"agent9/fsys"
	"agent9/gateway/mcp"
)

func mcpCommand() *cli.Command {
	return &cli.Command{
		Name:      "mcp",
		Usage:     "serve the tree, or one agent's, to a coding assistant (MCP on standard input and output)",
		ArgsUsage: "[AGENT]",
		Description: `The assistant starts this command itself: give it as an MCP server of the kind
"stdio" in the assistant's configuration. It sees what the address and the
token show, on the operator's socket everything, and below AGENT if that is
given. The daemon may be restarted meanwhile.

   agentctl mcp alice
   agentctl --token a9_... mcp`,
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action:       attached(serveMCP, listAll),
	}
}

// serveMCP serves until the input ends.
func serveMCP(s *session) error {
	ctx, cancel := context.WithCancel(s.Context.Context)
	defer cancel()
	link := &mcpLink{first: s, now: s}
	defer link.close()
	if _, err := link.root(ctx); err != nil {
		return err
	}
	server := mcp.NewServer(ctx, link.root, version())
	err := server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(s.App.Reader), Writer: noClose{s.App.Writer}})
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) && s.Context.Context.Err() == nil {
		return nil
	}
	return err
}

// An mcpLink is the connection to a daemon, made again when that was lost.
type mcpLink struct {
	first *session // what the command was started with

	mu  sync.Mutex
	now *session
}

// root finds the tree that the command is to serve.
func (l *mcpLink) root(ctx context.Context) (fsys.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.now.client.Done():
		again, err := dial(l.first.Context, "9P2000", listAll)
		if err != nil {
			return nil, err
		}
		l.now.client.Close()
		l.now = again
	default:
	}
	name := l.first.Args().First()
	if name == "" {
		return l.now.root, nil
	}
	dir, err := l.now.agent(name)
	if err != nil {
		return nil, err
	}
	n, err := fsys.WalkPath(ctx, l.now.root, dir)
	return n, at(dir, err)
}

func (l *mcpLink) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != l.first {
		l.now.client.Close()
	}
}

// noClose is a Writer that others close.
type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }
