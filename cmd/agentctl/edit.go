package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

// editConfig lets a person edit a document. While the editor is open there is
// no connection, and interrupts are the editor's.
func editConfig(c *cli.Context) error {
	if c.NArg() > 1 || c.String("unset") != "" {
		return usagef("config: --edit takes only the agent")
	}
	c.Context = context.WithoutCancel(c.Context)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	var p string
	var before []byte
	err := attached(func(s *session) (err error) {
		if p, err = s.settings(); err == nil {
			before, err = s.readFile(p)
		}
		return at(p, err)
	})(c)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "agentctl-"+path.Base(p)+"-*.json")
	if err != nil {
		return err
	}
	draft := f.Name()
	_, err = f.Write(indented(before))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = runEditor(c, draft)
	}
	if err != nil {
		os.Remove(draft)
		return err
	}
	if err := storeEdited(c, p, draft, before); err != nil {
		return &draftError{err, draft}
	}
	return os.Remove(draft)
}

// draftError says where a text is that was not taken.
type draftError struct {
	err   error
	draft string
}

func (e *draftError) Error() string { return words(e.err) + "; what you wrote is in " + e.draft }
func (e *draftError) Unwrap() error { return e.err }

// storeEdited writes what is in the file draft to p, unless p has changed since
// it was before.
func storeEdited(c *cli.Context, p, draft string, before []byte) error {
	text, err := os.ReadFile(draft)
	if err != nil {
		return err
	}
	doc, err := compacted(text)
	if err != nil {
		return err
	}
	if was, err := compacted(before); err == nil && bytes.Equal(was, doc) {
		notice(c.App.ErrWriter, "nothing was changed")
		return nil
	}
	return attached(func(s *session) error {
		now, err := s.readFile(p)
		switch {
		case err != nil:
			return at(p, err)
		case !bytes.Equal(now, before):
			return at(p, fsys.E(fsys.Busy, "somebody else has changed it meanwhile"))
		}
		return at(p, s.writeFile(p, doc))
	})(c)
}

// runEditor opens file in the editor that the user likes.
func runEditor(c *cli.Context, file string) error {
	fallback := "vi"
	if runtime.GOOS == "windows" {
		fallback = "notepad"
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), fallback)
	words := strings.Fields(editor)
	if len(words) == 0 {
		words = []string{fallback}
	}
	cmd := exec.Command(words[0], append(words[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.App.Reader, plain.Bare(c.App.Writer), plain.Bare(c.App.ErrWriter)
	if err := cmd.Run(); err != nil {
		return fsys.E(fsys.Canceled, fmt.Sprintf("the editor, %s, failed: %v; nothing was changed", editor, err))
	}
	return nil
}
