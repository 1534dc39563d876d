package main

import (
	"path"
	"strings"

	"agent9/fsys"
)

// agents returns the directory of all agents, or nil if the root is the tree
// of one.
func (s *session) agents() (fsys.Node, error) {
	n, err := s.walk("agents")
	if fsys.CodeOf(err) == fsys.NotExist && err != nil {
		return nil, nil
	}
	return n, err
}

// agent returns the path of the tree of the agent called name. Where the root
// is an agent's own tree, name may be empty or ".".
func (s *session) agent(name string) (string, error) {
	name = strings.TrimPrefix(clean(name), "agents/")
	agents, err := s.agents()
	switch {
	case err != nil:
		return "", err
	case agents != nil && name == "":
		return "", usagef("which agent? agentctl list shows them")
	case agents != nil:
		if err := fsys.CheckName(name); err != nil {
			return "", at(name, err)
		}
		return "agents/" + name, nil
	case name == "":
		return "", nil
	}
	own, err := s.report("")
	if err != nil {
		return "", err
	}
	if own.Name != name {
		return "", at(name, fsys.E(fsys.NotExist, "only the agent "+own.Name+" can be seen here"))
	}
	return "", nil
}

// agentAnd splits the arguments AGENT WORD…, of which AGENT may be left out
// where the root is an agent's own tree and there is one WORD.
func (s *session) agentAnd(what string) (dir string, rest []string, err error) {
	args := s.Args().Slice()
	if len(args) == 1 {
		if agents, err := s.agents(); err != nil {
			return "", nil, err
		} else if agents != nil {
			return "", nil, usagef("%s: after the agent %s is missing; see agentctl %s --help", s.Command.Name, what, s.Command.Name)
		}
	}
	if len(args) < 2 {
		args = append([]string{""}, args...)
	}
	if dir, err = s.agent(args[0]); err != nil {
		return "", nil, err
	}
	if len(args) < 2 {
		return "", nil, usagef("%s is missing", what)
	}
	return dir, args[1:], nil
}

// elsewhere adds to err, of a walk to p, that p is below agents/, if it is.
func (s *session) elsewhere(p string, err error) error {
	if err == nil || fsys.CodeOf(err) != fsys.NotExist {
		return err
	}
	there := join("agents", p)
	if _, other := s.root.WalkPath(s.Context.Context, there); other != nil || clean(p) == "" {
		return err
	}
	return fsys.E(fsys.NotExist, words(err)+"; did you mean "+there+"?")
}

// A statusReport is what the commands use of an agent's status file.
type statusReport struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Pubkey  string `json:"pubkey"`
	Created string `json:"created"`
	Reason  string `json:"reason"` // why it has failed
	Ticks   struct {
		Count   int64  `json:"count"`
		Failed  int64  `json:"failed"`
		Running string `json:"running"`
	} `json:"ticks"`
	Queues struct {
		Inbox      int `json:"inbox"`
		DeadLetter int `json:"deadletter"`
		Jobs       int `json:"jobs"`
		Approvals  int `json:"approvals"`
		Alarms     int `json:"alarms"`
	} `json:"queues"`
	Budget struct {
		Held     int64  `json:"held_microusd"`
		SpentDay int64  `json:"spent_day_microusd"`
		Spent    int64  `json:"spent_total_microusd"`
		Left     *int64 `json:"left_microusd"` // null: no limit
	} `json:"budget"`

	raw []byte
}

// MarshalJSON gives the file as it is.
func (r statusReport) MarshalJSON() ([]byte, error) { return raw(r.raw), nil }

// report reads the status of the agent whose tree is dir.
func (s *session) report(dir string) (statusReport, error) {
	var r statusReport
	file := path.Join(dir, "status")
	err := s.readJSON(file, &r, &r.raw)
	return r, err
}
