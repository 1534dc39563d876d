package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// effect is what a tool says of itself to who decides whether to ask a person.
type effect uint8

const (
	looks effect = iota
	changes
	destroys
	reaches // the world beyond the tree
)

func (e effect) hints() *sdk.ToolAnnotations {
	destructive, open := e == destroys || e == reaches, e == reaches
	return &sdk.ToolAnnotations{ReadOnlyHint: e == looks, DestructiveHint: &destructive, OpenWorldHint: &open}
}

// an answer is what a tool gives for programs, and how it is shown to a model.
type answer interface{ shown() []sdk.Content }

func text(s string) sdk.Content { return &sdk.TextContent{Text: s} }

// pathed is the arguments of a tool.
type pathed interface{ place() string }

func (a at) place() string { return a.Path }

func add[In pathed, Out answer](t *tree, name string, e effect, description string, do func(context.Context, In) (Out, error)) {
	sdk.AddTool(t.server, &sdk.Tool{Name: name, Description: description, Annotations: e.hints()},
		func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
			out, err := do(ctx, in)
			if err != nil {
				return nil, out, told(ctx, in.place(), err)
			}
			return &sdk.CallToolResult{Content: out.shown()}, out, nil
		})
}

func (t *tree) addTools() {
	add(t, "list", looks, "Lists a directory: the name, kind (file, directory, message, stream) and size of each entry. "+
		"For a file it returns the same about that file. A long directory comes in parts: continue with after.", t.ls)
	add(t, "read", looks, "Reads what is in a file or stream now, without waiting, from offset on. "+
		"The result has next_offset, where to continue, and whether there is more. A message file returns what it says without a request, such as the commands of a ctl. "+
		"It consumes nothing: for files such as /inbox/next, and for data that a stream does not have yet, use wait.", t.read)
	add(t, "wait", changes, "Waits for a stream and returns what came from offset on: with to_end false as soon as there is anything, "+
		"with to_end true all until the stream has ended, or what there is when the seconds are over (timed_out; go on at next_offset). "+
		"Use to_end for the output or result of a job or a session, and for /inbox/next, whose message is gone when it was read to the end.", t.wait)
	add(t, "write", destroys, "Writes a file: replaces what is in it or, with append, adds to its end. A file that does not exist is made where the directory allows it. "+
		"Message files are not written but called.", t.write)
	add(t, "call", reaches, "Sends a request to a message file and returns the reply. The request is plain text or JSON, as the file wants it; a ctl file takes commands, one per line. "+
		"Some requests spend the agent's money: /compute/new asks a model, /containers/new runs commands.", t.call)
	add(t, "mkdir", changes, "Makes a directory where that is allowed. In /agents it creates an agent.", t.mkdir)
	add(t, "remove", destroys, "Removes a file, or a directory that is empty or may be removed as a whole, such as a job. In /agents it deletes a stopped agent, for good.", t.remove)
	add(t, "rename", destroys, "Gives a file another name in the same directory, and replaces a file that has it.", t.rename)
}
