// Package toolstest is a server of tools for tests, made with the official SDK
// of MCP.
package toolstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Var is the variable by which a test's own binary is told to be the server.
const Var = "AGENT9_TEST_IS_TOOLS"

// Main serves on standard input and output, if the environment says so, and
// then ends the process.
func Main() {
	if os.Getenv(Var) == "" {
		return
	}
	if at := os.Getenv("AGENT9_TEST_STARTED"); at != "" {
		f, err := os.OpenFile(at, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, os.Getpid())
			f.Close()
		}
	}
	switch os.Getenv(Var) {
	case "broken":
		fmt.Fprintln(os.Stderr, "I will not serve, my key is "+os.Getenv("API_KEY"))
		os.Exit(3)
	case "silent":
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "stubborn": // does not end when its input does
		New().Run(context.Background(), &sdk.StdioTransport{})
		select {}
	}
	New().Run(context.Background(), &sdk.StdioTransport{})
	os.Exit(0)
}

type none struct{}

type sum struct {
	A int `json:"a" jsonschema:"one number"`
	B int `json:"b" jsonschema:"another one"`
}

type total struct {
	Sum int `json:"sum"`
}

func said(s string) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}, nil, nil
}

// New returns the server.
func New() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test tools", Version: "1.2"}, &sdk.ServerOptions{Instructions: "Count with me."})
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "adds two numbers"}, func(_ context.Context, _ *sdk.CallToolRequest, in sum) (*sdk.CallToolResult, total, error) {
		return nil, total{in.A + in.B}, nil
	})
	add := func(name string, do func(ctx context.Context) (*sdk.CallToolResult, any, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "for tests"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
			return do(ctx)
		})
	}
	add("env", func(context.Context) (*sdk.CallToolResult, any, error) { return said(strings.Join(os.Environ(), "\n")) })
	add("fail", func(context.Context) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("it did not work")
	})
	add("crash", func(context.Context) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(7)
		return nil, nil, nil
	})
	add("big", func(context.Context) (*sdk.CallToolResult, any, error) { return said(strings.Repeat("x", 2<<20)) })
	add("wait", func(ctx context.Context) (*sdk.CallToolResult, any, error) {
		add("waited", func(context.Context) (*sdk.CallToolResult, any, error) { return said("yes") })
		<-ctx.Done()
		add("cancelled", func(context.Context) (*sdk.CallToolResult, any, error) { return said("yes") })
		return nil, nil, ctx.Err()
	})
	add("fork", func(context.Context) (*sdk.CallToolResult, any, error) {
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			return nil, nil, err
		}
		return said(fmt.Sprint(c.Process.Pid))
	})
	add("schema", func(context.Context) (*sdk.CallToolResult, any, error) { return said("mine") })
	return s
}
