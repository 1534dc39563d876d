package golang_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/providers/programs/golang"
)

// doer is an agent that does a deed.
type doer conformance.Deed

func (d doer) Tick(ctx context.Context, ns fsys.Node, t programs.Trigger) error {
	return conformance.Deed(d).Do(ctx, ns, t, io.Discard)
}

func (d doer) Answer(ctx context.Context, ns fsys.Node, t programs.Trigger, w io.Writer) error {
	return conformance.Deed(d).Do(ctx, ns, t, w)
}

// broken is an agent with a fault in it.
type broken struct{}

func (broken) Tick(context.Context, fsys.Node, programs.Trigger) error { panic("on purpose") }

func program(t *testing.T, a programs.Agent) programs.Program {
	p, err := golang.Table{"it": a}.New("it")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrograms(t *testing.T) {
	conformance.TestPrograms(t, conformance.Programs{
		New: func(t *testing.T, deed conformance.Deed, _ fsys.Node) programs.Program {
			if deed == conformance.Tell { // it is a part of the daemon
				return nil
			}
			return program(t, doer(deed))
		},
		Impossible: func(t *testing.T) programs.Program { return program(t, broken{}) },
		Silent:     true,
	})
}

func TestPanicIsAFailure(t *testing.T) {
	_, err := program(t, broken{}).Run(t.Context(), programs.Trigger{Cause: programs.Manual}, programs.Env{})
	if err == nil || err.Error() != "the program panicked: on purpose" {
		t.Errorf("a panic is %v", err)
	}
}

func TestUnknownName(t *testing.T) {
	_, err := golang.Table{"b": broken{}, "a": broken{}}.New("c")
	if fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(fsys.ReasonOf(err), "there are: a, b") {
		t.Errorf("a name that is not there: %v", err)
	}
}
