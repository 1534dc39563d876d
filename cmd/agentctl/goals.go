package main

import (
	"path"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func goalsCommand() *cli.Command {
	return &cli.Command{
		Name:      "goals",
		Usage:     "show an agent's goals; read, write or remove one",
		ArgsUsage: "AGENT [GOAL [TEXT|-]]",
		Description: `GOAL is the path of a file in goals/; the directories above it are made.

   agentctl goals alice
   agentctl goals alice 2030/today "ship it"
   agentctl goals alice today
   agentctl goals alice --rm today`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "rm", Usage: "remove `GOAL`"},
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		BashComplete: completeGoals,
		Action:       attached(goals),
	}
}

func goals(s *session) error {
	dir, err := s.agent(s.Args().First())
	if err != nil {
		return err
	}
	dir = join(dir, "goals")
	name, words, remove := s.Args().Get(1), []string(nil), s.String("rm")
	if s.NArg() > 2 {
		words = s.Args().Slice()[2:]
	}
	goal := join(dir, clean(name))
	switch {
	case remove != "" && name != "":
		return usagef("goals: --rm takes only the agent")
	case remove != "":
		goal = join(dir, clean(remove))
		n, err := s.walk(goal)
		if err == nil {
			err = fsys.Remove(s.Context.Context, n)
		}
		return at(goal, err)
	case name == "":
		return s.listGoals(dir)
	case words == nil:
		return at(goal, s.cat(goal))
	}
	text, err := textOf(s.Context.Context, s.App.Reader, words)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := s.makeDir(path.Dir(goal)); err != nil {
		return err
	}
	return at(goal, s.put(goal, strings.NewReader(text)))
}

// makeDir returns the directory at p, which it makes with those above it.
func (s *session) makeDir(p string) (fsys.Node, error) {
	ctx := s.Context.Context
	n, err := s.walk(p)
	if err == nil {
		return n, at(p, isDir(s, n))
	}
	if fsys.CodeOf(err) != fsys.NotExist {
		return nil, at(p, err)
	}
	above, err := s.makeDir(path.Dir(p))
	if err != nil {
		return nil, err
	}
	n, err = fsys.Mkdir(ctx, above, path.Base(p), 0o755)
	return n, at(p, err)
}

// A goal is a file in goals/.
type goal struct {
	Goal    string `json:"goal"` // its path in goals/
	Size    int64  `json:"size"`
	Changed string `json:"changed"`
	Text    string `json:"text"` // what it begins with
}

// maxGoals is how many a list shows at most.
const maxGoals = 4096

// goalsIn returns the goals in the tree at dir, of which rel is the path.
func (s *session) goalsIn(dir fsys.Node, rel string, list []goal) ([]goal, error) {
	entries, err := fsys.List(s.Context.Context, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		p := path.Join(rel, e.Name)
		info, err := s.stat(e.Node)
		switch {
		case err != nil && fsys.CodeOf(err) == fsys.NotExist:
			continue
		case err != nil:
			return nil, at(p, err)
		case len(list) >= maxGoals:
			return list, nil
		case info.Kind == fsys.Directory:
			if list, err = s.goalsIn(e.Node, p, list); err != nil {
				return nil, err
			}
			continue
		}
		h, err := e.Node.Open(s.Context.Context, fsys.Read)
		if err != nil {
			return nil, at(p, err)
		}
		b := make([]byte, 256)
		n, err := fsys.ReadAt(s.Context.Context, h, b, 0)
		h.Close()
		if err != nil && !fsys.IsEOF(err) {
			return nil, at(p, err)
		}
		list = append(list, goal{p, info.Size, when(info.ModTime), firstLine(b[:n])})
	}
	return list, nil
}

func (s *session) listGoals(dir string) error {
	n, err := s.walk(dir)
	if err != nil {
		return at(dir, err)
	}
	list, err := s.goalsIn(n, "", nil)
	if err != nil {
		return err
	}
	if s.Bool("json") {
		for _, g := range list {
			s.printJSON(g)
		}
		return nil
	}
	t := newTable(s.App.Writer, "GOAL", "SIZE", "CHANGED", "TEXT")
	for _, g := range list {
		t.row(g.Goal, g.Size, g.Changed, g.Text)
	}
	return t.flush()
}
