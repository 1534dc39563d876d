package main

import (
	"sync"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/money"
	"agent9/fsys"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "show the agents: name, state, waiting messages and jobs, money left",
		Description: `Money is in US dollars. LEFT is what the agent can really spend now, the accounts
above its own included: "-" is no limit, and less than $0.00 overdrawn. With --json the output
is the status of each agent, one per line.

   agentctl list
   agentctl list --json | jq -r .name`,
		Flags:        []cli.Flag{jsonFlag()},
		OnUsageError: usageFailed,
		Before:       takes(0, 0, ""),
		Action: attached(func(s *session) error {
			dirs, err := s.allAgents()
			if err != nil {
				return err
			}
			reports, err := s.reports(dirs)
			if err != nil {
				return err
			}
			if s.Bool("json") {
				for _, r := range reports {
					s.App.Writer.Write(r.raw)
				}
				return nil
			}
			t := newTable(s.App.Writer, "NAME", "STATE", "INBOX", "JOBS", "SPENT", "LEFT")
			for _, r := range reports {
				t.row(r.Name, r.State, r.Queues.Inbox, r.Queues.Jobs, money.Text(r.Budget.Spent), left(r.Budget.Left, "-"))
			}
			return t.flush()
		}),
	}
}

// allAgents returns the paths of the trees that can be seen.
func (s *session) allAgents() ([]string, error) {
	agents, err := s.agents()
	if err != nil {
		return nil, err
	}
	if agents == nil {
		return []string{""}, nil
	}
	entries, err := fsys.List(s.Context.Context, agents)
	dirs := make([]string, len(entries))
	for i, e := range entries {
		dirs[i] = "agents/" + e.Name
	}
	return dirs, err
}

// atOnce is how many requests a command that asks about many files sends
// before it waits.
const atOnce = 16

// reports reads the status of many agents. One that was deleted meanwhile is
// left out.
func (s *session) reports(dirs []string) ([]statusReport, error) {
	all := make([]statusReport, len(dirs))
	errs := make([]error, len(dirs))
	parallel(len(dirs), func(i int) { all[i], errs[i] = s.report(dirs[i]) })
	found := all[:0]
	for i, err := range errs {
		switch {
		case err == nil:
			found = append(found, all[i])
		case fsys.CodeOf(err) != fsys.NotExist:
			return nil, err
		}
	}
	return found, nil
}

// parallel calls f for 0 to n-1, up to atOnce of them at the same time.
func parallel(n int, f func(i int)) {
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// left says what the agent can really spend now; unlimited if that has no
// limit.
func left(micros *int64, unlimited string) string {
	if micros == nil {
		return unlimited
	}
	return money.Text(*micros)
}

// leftInWords is left, for a line of its own.
func leftInWords(micros *int64) string {
	if micros != nil && *micros < 0 {
		return money.Text(*micros) + ": overdrawn, so nothing that costs begins until the window turns or a limit is raised"
	}
	return left(micros, "no limit")
}
