package main

import (
	"path"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

// completeAgents offers the agents that there are, as the first argument.
func completeAgents(c *cli.Context) { completeAgentAnd(nil)(c) }

// completeManyAgents offers them as every argument.
func completeManyAgents(c *cli.Context) {
	completeWith(func(s *session, word string) error { return s.offerAgents(word) })(c)
}

// completeAgentAnd offers agents as the first argument and, as those that
// follow, what offer prints for the agent whose tree is dir.
func completeAgentAnd(offer func(s *session, dir, word string) error) cli.BashCompleteFunc {
	return completeWith(func(s *session, word string) error {
		switch {
		case s.NArg() == 0:
			return s.offerAgents(word)
		case offer == nil:
			return nil
		}
		dir, err := s.agent(s.Args().First())
		if err != nil {
			return err
		}
		return offer(s, dir, word)
	})
}

func (s *session) offerAgents(word string) error {
	agents, err := s.agents()
	if err != nil || agents == nil {
		return err
	}
	return s.offer(agents, "", word, false)
}

// offerIn offers the names in a directory of the agent.
func offerIn(directory string) func(s *session, dir, word string) error {
	return func(s *session, dir, word string) error {
		n, err := s.walk(join(dir, directory))
		if err != nil {
			return err
		}
		return s.offer(n, "", word, false)
	}
}

func completeApprovals(c *cli.Context) { completeAgentAnd(offerIn("approvals"))(c) }

// completeGoals offers the paths in goals/.
func completeGoals(c *cli.Context) {
	completeAgentAnd(func(s *session, dir, word string) error {
		if s.NArg() > 1 {
			return nil
		}
		above, base := path.Split(word)
		n, err := s.walk(join(dir, "goals/"+above))
		if err != nil {
			return err
		}
		return s.offer(n, above, base, true)
	})(c)
}

// completeSandboxes offers the sessions of sandboxes.
func completeSandboxes(c *cli.Context) {
	completeAgentAnd(func(s *session, dir, word string) error {
		if s.NArg() > 1 {
			return nil
		}
		return offerIn("containers/sessions")(s, dir, word)
	})(c)
}

// completeTalks offers the numbers of the sessions that one can talk in.
func completeTalks(c *cli.Context) {
	completeAgentAnd(func(s *session, dir, word string) error {
		names, err := s.names(join(dir, "sessions"))
		for _, name := range names {
			if s.NArg() == 1 && isNumber(name) && strings.HasPrefix(name, word) {
				s.candidate(name)
			}
		}
		return err
	})(c)
}

// completeConfig offers the fields that are set.
func completeConfig(c *cli.Context) {
	completeAgentAnd(func(s *session, dir, word string) error {
		if s.NArg() > 1 {
			return nil
		}
		doc, err := s.readFile(join(dir, s.String("file")))
		if err == nil {
			s.offerFields(doc, "", word)
		}
		return err
	})(c)
}

func (s *session) offerFields(doc []byte, above, word string) {
	fields, err := fieldsOf(doc)
	if err != nil {
		return
	}
	for _, f := range fields {
		if strings.HasPrefix(above+f.name, word) {
			s.candidate(above + f.name)
		}
		s.offerFields(f.value, above+f.name+".", word)
	}
}

// completeCopy offers agents with a colon behind them, what is in their trees,
// and leaves files of this machine to the shell.
func completeCopy(c *cli.Context) {
	completeWith(func(s *session, word string) error {
		agent, p, remote := strings.Cut(word, ":")
		if !remote {
			names, err := s.allAgents()
			for _, dir := range names {
				if name := path.Base(dir) + ":"; dir != "" && strings.HasPrefix(name, word) {
					s.candidate(name)
				}
			}
			return err
		}
		above, base := path.Split(p)
		dir, err := s.treeOf(agent)
		if err != nil {
			return err
		}
		n, err := s.walk(join(dir, above))
		if err != nil && fsys.CodeOf(err) == fsys.NotExist {
			return nil
		}
		if err != nil {
			return err
		}
		return s.offer(n, agent+":"+above, base, true)
	})(c)
}
