package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

//go:embed completion.bash completion.zsh
var scripts embed.FS

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the script that completes commands, agents and paths in a shell",
		ArgsUsage: "bash|zsh",
		Description: `   source <(agentctl completion bash)       in ~/.bashrc
   source <(agentctl completion zsh)        in ~/.zshrc, after compinit`,
		OnUsageError: usageFailed,
		Before:       takes(1, 1, "the shell"),
		BashComplete: func(c *cli.Context) {
			if !completeFlags(c) {
				fmt.Fprintln(c.App.Writer, "bash\nzsh")
			}
		},
		Action: func(c *cli.Context) error {
			script, err := scripts.ReadFile("completion." + c.Args().First())
			if err != nil {
				return usagef("completion: write bash or zsh")
			}
			_, err = c.App.Writer.Write(script)
			return err
		},
	}
}

// wordVariable holds the word to be completed: the parser keeps it for itself.
const wordVariable = "AGENTCTL_WORD"

// completeFlags offers the command's flags if the word is to be one, and
// reports whether it is.
func completeFlags(c *cli.Context) bool {
	word := os.Getenv(wordVariable)
	if !strings.HasPrefix(word, "-") {
		return false
	}
	for _, f := range c.Command.VisibleFlags() {
		for _, name := range f.Names() {
			if len(name) > 1 && strings.HasPrefix("--"+name, word) {
				fmt.Fprintln(c.App.Writer, "--"+name)
			}
		}
	}
	return true
}

// completeCommands offers flags and commands where neither was given yet.
func completeCommands(c *cli.Context) {
	if completeFlags(c) {
		return
	}
	for _, cmd := range c.App.VisibleCommands() {
		fmt.Fprintln(c.App.Writer, cmd.Name)
	}
}

// completeWith makes a completion of f, which prints candidates for word.
func completeWith(f func(s *session, word string) error) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		word := os.Getenv(wordVariable)
		if completeFlags(c) {
			return
		}
		ctx, cancel := context.WithTimeout(c.Context, 2*time.Second)
		defer cancel()
		c.Context = ctx
		c.Set(waitFlag, "0s")
		s, err := dial(c, "9P2000", listAll)
		if err != nil {
			return // there is nothing to offer, and nowhere to say why
		}
		defer s.client.Close()
		f(s, word)
	}
}

// completePaths offers what is in the directory that the word has come to.
func completePaths(c *cli.Context) {
	completeWith(func(s *session, word string) error {
		dir, base := path.Split(word)
		n, err := s.walk(dir)
		if err != nil {
			return err
		}
		return s.offer(n, dir, base, true)
	})(c)
}

// candidate offers word, unless a terminal would obey something in it: the shell
// shows it as it is.
func (s *session) candidate(word string) {
	if plain.Line(word) == word {
		fmt.Fprintln(s.App.Writer, word)
	}
}

// offer prints the names in dir that begin with base, after prefix; with
// slashes, a directory has one behind it.
func (s *session) offer(dir fsys.Node, prefix, base string, slashes bool) error {
	entries, err := fsys.List(s.Context.Context, dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, base) {
			continue
		}
		if n, ok := e.Node.(*ninep.Remote); ok && slashes && n.Kind() == fsys.Directory {
			e.Name += "/"
		}
		s.candidate(prefix + e.Name)
	}
	return err
}
