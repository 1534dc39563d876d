// Package golang runs programs that are written in Go and compiled in.
package golang

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/providers/programs"
)

// A Table is the agents that are compiled in, by the names that config uses.
type Table map[string]programs.Agent

// New returns the program called name.
func (t Table) New(name string) (programs.Program, error) {
	if a := t[name]; a != nil {
		return program{a}, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(t)), ", ")
	return nil, fsys.E(fsys.Invalid, "program: no Go program is called "+name+"; there are: "+known)
}

type program struct{ agent programs.Agent }

func (p program) Run(ctx context.Context, t programs.Trigger, env programs.Env) (out programs.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("panic in an agent's program", "agent", t.Agent, "panic", r, "stack", string(debug.Stack()))
			err = &programs.Failure{Kind: programs.Failed, Reason: fmt.Sprintf("the program panicked: %v", r)}
		}
	}()
	if t.Cause != programs.Asked {
		return out, p.agent.Tick(ctx, env.NS, t)
	}
	if a, ok := p.agent.(programs.Answerer); ok {
		return out, a.Answer(ctx, env.NS, t, env.Output)
	}
	return out, &programs.Failure{Kind: programs.Refused, Reason: "this program does not answer prompts"}
}
