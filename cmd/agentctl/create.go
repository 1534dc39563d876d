package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func createCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "make agents",
		ArgsUsage: "NAME...",
		Description: `The same as mkdir in /agents. With --profile the agent begins with the files of
a profile: one that the daemon keeps in /profiles, or, if the name has a slash in
it, a folder here. --set gives the {{VARIABLES}} in them; {{NAME}} is the agent's
name. An agent is made whole, or not at all.

   agentctl create alice bob
   agentctl create carol --profile support --set MODEL=gpt-5 --set TONE="short, kind"
   agentctl create dave --profile ./my-profile`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "profile", Usage: "`PROFILE`: its name, or a folder such as ./p"},
			&cli.StringSliceFlag{Name: "set", Usage: "give a variable, `KEY=VALUE`; can be given again"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a name"),
		Action: attached(func(s *session) error {
			agents, err := s.needAgents()
			if err != nil {
				return err
			}
			request, err := s.createRequest()
			if err != nil {
				return err
			}
			return each(s.Context.Context, s.App.ErrWriter, s.Args().Slice(), func(name string) (err error) {
				defer func() {
					if err != nil && fsys.CodeOf(err) == fsys.Exist {
						err = fsys.E(fsys.Exist, "there is an agent "+name+" already")
					}
				}()
				if request == nil {
					_, err = fsys.Mkdir(s.Context.Context, agents, name, 0o755)
					return at(name, err)
				}
				request.Name = name
				_, err = fsys.Converse(s.Context.Context, s.root, "create", fsys.Line(request))
				return at(name, err)
			})
		}),
	}
}

// A createRequest is what the file create takes.
type createRequest struct {
	Name    string            `json:"name"`
	Profile string            `json:"profile,omitempty"`
	Files   map[string]string `json:"files,omitempty"`
	Set     map[string]string `json:"set,omitempty"`
}

// createRequest returns what the flags say; nil if they say nothing.
func (s *session) createRequest() (*createRequest, error) {
	profile, words := s.String("profile"), s.StringSlice("set")
	if profile == "" && len(words) == 0 {
		return nil, nil
	}
	r := &createRequest{Profile: profile, Set: map[string]string{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if _, twice := r.Set[key]; !ok || twice {
			return nil, usagef("--set takes KEY=VALUE, and each KEY once; not %q", w)
		}
		r.Set[key] = value
	}
	if !strings.ContainsRune(filepath.ToSlash(profile), '/') && profile != "." {
		return r, nil
	}
	r.Profile = ""
	var err error
	r.Files, err = localProfile(profile)
	return r, err
}

// localProfile reads the files of a folder.
func localProfile(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !utf8.Valid(b) {
			return fmt.Errorf("%s is not UTF-8 text; put the profile into the daemon's profiles/, with cp on a mount", path)
		}
		rel, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files; a profile is a folder of them", dir)
	}
	return files, err
}

// needAgents returns the directory of all agents, which only the operator
// sees.
func (s *session) needAgents() (fsys.Node, error) {
	agents, err := s.agents()
	if err == nil && agents == nil {
		err = fsys.E(fsys.Permission, "this is one agent's tree; agents are made and deleted on the operator's socket")
	}
	return agents, err
}
