package main

import (
	"fmt"
	"sync"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "show the agents: name, state, waiting messages and jobs, money left",
		Description: `Money is in US dollars; "-" is money without a limit. With --json the output
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
				t.row(r.Name, r.State, r.Queues.Inbox, r.Queues.Jobs, dollars(r.Budget.Spent), left(r, "-"))
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

// left says the money that the agent may still spend.
func left(r statusReport, unlimited string) string {
	if r.Budget.Left == nil {
		return unlimited
	}
	return dollars(*r.Budget.Left)
}

// dollars writes micro-dollars with at least two places and no more than they
// need.
func dollars(micros int64) string {
	sign := ""
	if micros < 0 {
		sign, micros = "-", -micros
	}
	frac := fmt.Sprintf("%06d", micros%1e6)
	for len(frac) > 2 && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	return fmt.Sprintf("%s$%d.%s", sign, micros/1e6, frac)
}
