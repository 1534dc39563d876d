package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

var errUsage = errors.New("see agentbench --help")

// A suite is a group of figures that are measured on servers of their own.
type suite struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

func suites() []suite {
	return []suite{
		{"wire", wireSuite},
		{"flush", flushSuite},
		{"fanout", fanoutSuite},
		{"inbox", inboxSuite},
		{"mount", mountSuite},
		{"agents", agentsSuite},
		{"scale", scaleSuite},
	}
}

func suiteNames() (names []string) {
	for _, s := range suites() {
		names = append(names, s.name)
	}
	return names
}

func app() *cli.App {
	return &cli.App{
		Name:                   "agentbench",
		Usage:                  "measure agent9 as its clients see it, and others beside it",
		ArgsUsage:              "[SUITE...]",
		Description:            "The suites are " + strings.Join(suiteNames(), ", ") + "; all of them by default.\nStandard output is for benchstat.",
		UseShortOptionHandling: true,
		HideHelpCommand:        true,
		ExitErrHandler:         func(*cli.Context, error) {}, // main prints it
		OnUsageError:           func(_ *cli.Context, err error, _ bool) error { return errors.Join(err, errUsage) },
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "agentd", Usage: "measure this `FILE`; else agentd is built from the module around"},
			&cli.StringFlag{Name: "peers", Usage: "measure only these of the servers of others, comma-separated `NAMES`, or none", Value: "all"},
			&cli.IntFlag{Name: "rounds", Usage: "let each take its turn `N` times", Value: 9},
			&cli.DurationFlag{Name: "turn", Usage: "about how long a turn is", Value: 100 * time.Millisecond},
			&cli.StringFlag{Name: "only", Usage: "measure only figures whose name contains `TEXT`"},
			&cli.BoolFlag{Name: "full", Usage: "the scale that the manual speaks of: 100,000 agents, a million messages …; takes long", EnvVars: []string{"AGENT9_BENCH_FULL"}},
			&cli.BoolFlag{Name: "keep", Usage: "leave the folder with the servers' files and logs"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say what is done"},
		},
		Action: func(c *cli.Context) error {
			chosen := suites()
			if c.Args().Present() {
				for _, name := range c.Args().Slice() {
					if !slices.Contains(suiteNames(), name) {
						return fmt.Errorf("there is no suite %q; %w", name, errUsage)
					}
				}
				chosen = slices.DeleteFunc(chosen, func(s suite) bool { return !slices.Contains(c.Args().Slice(), s.name) })
			}
			if c.Int("rounds") < 1 || c.Duration("turn") <= 0 {
				return fmt.Errorf("--rounds and --turn must be positive; %w", errUsage)
			}
			return run(c, chosen)
		},
	}
}

func run(c *cli.Context, chosen []suite) error {
	dir, err := os.MkdirTemp("", "agentbench") // whose path is short enough for sockets
	if err != nil {
		return err
	}
	if c.Bool("keep") {
		fmt.Fprintln(os.Stderr, "agentbench: everything is in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // diod looks as another user
		return err
	}
	b := &bench{
		dir: dir, out: os.Stdout, notes: os.Stderr, agentd: c.Path("agentd"), peers: strings.Split(c.String("peers"), ","),
		rounds: c.Int("rounds"), turn: c.Duration("turn"), only: c.String("only"), full: c.Bool("full"), verbose: c.Bool("verbose"),
	}
	fmt.Fprintf(b.out, "goos: %s\ngoarch: %s\npkg: agent9/cmd/agentbench\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cpuModel())
	defer b.summary()
	for _, s := range chosen {
		b.say("suite %s", s.name)
		if err := s.run(c.Context, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
