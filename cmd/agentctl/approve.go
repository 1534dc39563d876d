package main

import (
	"encoding/json"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/money"
	"agent9/fsys"
)

func approveCommand() *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "agree to what may cost more than an agent may spend without; show what waits",
		ArgsUsage: "[AGENT [ID...]]",
		Description: `Without an ID it shows what waits, of one agent or of all.

   agentctl approve
   agentctl approve alice 17
   agentctl approve alice --all`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "agree to all that waits of the agent"},
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		BashComplete: completeApprovals,
		Action:       attached(func(s *session) error { return s.decide("approve") }),
	}
}

func denyCommand() *cli.Command {
	return &cli.Command{
		Name:      "deny",
		Usage:     "refuse what waits for agreement",
		ArgsUsage: "AGENT ID...",
		Description: `What is refused fails, and costs nothing. Without an ID it shows what waits.

   agentctl deny alice 17 --reason "use the small model"
   agentctl deny alice --all`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the agent is told"},
			&cli.BoolFlag{Name: "all", Usage: "refuse all that waits of the agent"},
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		BashComplete: completeApprovals,
		Action: attached(func(s *session) error {
			return s.decide(strings.TrimSpace("deny " + oneLine(s.String("reason"))))
		}),
	}
}

// decide writes decision for what the arguments name, or lists what waits.
func (s *session) decide(decision string) error {
	ids := s.Args().Tail()
	if len(ids) == 0 && !s.Bool("all") {
		return s.listApprovals()
	}
	dir, err := s.agent(s.Args().First())
	if err != nil {
		return err
	}
	if s.Bool("all") {
		if len(ids) > 0 {
			return usagef("give either IDs or --all")
		}
		if ids, err = s.names(join(dir, "approvals")); err != nil {
			return err
		}
	}
	return each(s.Context.Context, s.App.ErrWriter, ids, func(id string) error {
		if err := fsys.CheckName(id); err != nil {
			return at(id, err)
		}
		err := s.tell(join(dir, "approvals/"+id), decision)
		if _, none := s.walk(join(dir, "approvals")); err != nil && none == nil && fsys.CodeOf(err) == fsys.NotExist {
			return fsys.E(fsys.NotExist, "no approval "+id+" waits; agentctl approve "+orDot(dir)+" shows what does")
		}
		return err
	})
}

// names lists the directory at p.
func (s *session) names(p string) ([]string, error) {
	n, err := s.walk(p)
	if err != nil {
		return nil, at(p, err)
	}
	entries, err := fsys.List(s.Context.Context, n)
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name
	}
	return list, at(p, err)
}

// An approvalReport is what the commands use of a file in approvals/.
type approvalReport struct {
	Agent    string `json:"agent"`
	ID       string `json:"id"`
	What     string `json:"what"`
	Max      int64  `json:"max_microusd"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Asked    string `json:"asked"`
	Expires  string `json:"expires"`
	By       string `json:"by"`

	fields []field
}

// approvals returns what waits of the agent whose tree is dir. What was
// decided meanwhile is left out.
func (s *session) approvals(dir string) (list []approvalReport, _ error) {
	ids, err := s.names(join(dir, "approvals"))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var a approvalReport
		var b []byte
		switch err := s.readJSON(join(dir, "approvals/"+id), &a, &b); {
		case err != nil && fsys.CodeOf(err) == fsys.NotExist:
			continue
		case err != nil:
			return nil, err
		}
		if a.fields, err = fieldsOf(b); err != nil {
			return nil, at(id, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func (s *session) listApprovals() error {
	var dirs []string
	if name := s.Args().First(); name != "" {
		dir, err := s.agent(name)
		if err != nil {
			return err
		}
		dirs = []string{dir}
	} else {
		var err error
		if dirs, err = s.allAgents(); err != nil {
			return err
		}
	}
	reports, err := s.reports(dirs)
	if err != nil {
		return err
	}
	var t *table
	if !s.Bool("json") {
		t = newTable(s.App.Writer, "AGENT", "ID", "WHAT", "AT MOST", "PROVIDER", "MODEL", "BY", "EXPIRES")
		defer t.flush()
	}
	own, err := s.agents()
	if err != nil {
		return err
	}
	for _, r := range reports {
		if r.Queues.Approvals == 0 {
			continue
		}
		dir := ""
		if own != nil {
			dir = "agents/" + r.Name
		}
		list, err := s.approvals(dir)
		if err != nil {
			return err
		}
		for _, a := range list {
			if s.Bool("json") {
				s.printJSON(withField("agent", r.Name, a.fields))
				continue
			}
			t.row(r.Name, a.ID, a.What, money.Text(a.Max), orDash(a.Provider), orDash(a.Model), orDash(a.By), a.Expires)
		}
	}
	return nil
}

// withField is a JSON object of fields, before which there is another one,
// unless it is among them.
func withField(name, value string, fields []field) json.RawMessage {
	if textOfField(fields, name) == "" {
		fields = append([]field{{name, raw(fsys.Line(value))}}, fields...)
	}
	return objectOf(fields)
}

// awaits tells a person that the work whose status file is at p waits for an
// agreement, if it does.
func (s *session) awaits(agent, p string) {
	var status struct{ State, Approval string }
	if b, err := s.readFile(p); err != nil || json.Unmarshal(b, &status) != nil || status.Approval == "" {
		return // what it waits for is said where the work is waited for
	}
	notice(s.App.ErrWriter, "it waits for approval %s: agentctl approve %s %[1]s", status.Approval, orDot(agent))
}

func orDot(agent string) string {
	if agent = strings.TrimPrefix(agent, "agents/"); agent == "" {
		return "."
	}
	return agent
}
