package main

import (
	"context"
	"io"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/addr"
	"agent9/cmd/internal/plain"
)

// run performs the command in args and returns the exit status, see statusOf.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	app := newApp()
	// The parser cannot complete words and split -rf at the same time.
	app.UseShortOptionHandling = args[len(args)-1] != completionFlag
	app.Reader, app.Writer, app.ErrWriter = in, plain.For(out), plain.For(errOut)
	err := app.RunContext(ctx, interspersed(app, args))
	return report(ctx, app.ErrWriter, err)
}

func newApp() *cli.App {
	app := &cli.App{
		Name:  "agentctl",
		Usage: "talk to the agents of an agent9 daemon",
		Description: `Every command works on the file tree that agentd serves. On the operator's
socket the agents are in /agents; with a token, or on an agent's own socket,
the root is that agent's tree, and AGENT may be left out or be ".".

   agentctl create alice
   agentctl send alice "the build is red"
   agentctl ask alice "why is the sky blue?"
   agentctl run alice "uname -a"
   agentctl cat agents/alice/status
   agentctl mount ~/agents`,
		Version:                   version(),
		EnableBashCompletion:      true,
		DisableSliceFlagSeparator: true, // a value may have commas
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Aliases: []string{"a"}, EnvVars: []string{"AGENT9_ADDR"},
				Usage: "`ADDRESS` of the daemon: unix:PATH or tcp:HOST:PORT", DefaultText: "unix:" + addr.DefaultSocket()},
			&cli.StringFlag{Name: "token", EnvVars: []string{"AGENT9_TOKEN"}, DefaultText: "none",
				Usage: "capability `TOKEN`, or the path to attach to"},
			&cli.DurationFlag{Name: waitFlag, EnvVars: []string{"AGENT9_WAIT"}, Value: 5 * time.Second,
				Usage: "wait at most `DURATION` for a daemon that does not listen yet; 0s does not"},
			&cli.BoolFlag{Name: "tls", EnvVars: []string{"AGENT9_TLS"}, Usage: "use TLS with the system's certificates"},
			tlsFile("tls-ca", "use TLS and trust the certificates in this PEM `FILE`"),
			tlsFile("tls-cert", "use TLS and show the certificate in this PEM `FILE`"),
			tlsFile("tls-key", "`FILE` with the key of that certificate"),
		},
		Commands:       commands(),
		Action:         noCommand,
		OnUsageError:   usageFailed,
		ExitErrHandler: func(*cli.Context, error) {}, // run reports
		BashComplete:   completeCommands,
	}
	for _, c := range app.Commands {
		if c.BashComplete == nil {
			c.BashComplete = func(c *cli.Context) { completeFlags(c) }
		}
	}
	return app
}

const waitFlag = "wait"

// commands returns every command, in the order in which help shows them.
func commands() (list []*cli.Command) {
	for _, group := range []struct {
		name     string
		commands []*cli.Command
	}{
		{"Agents", append([]*cli.Command{
			createCommand(), deleteCommand(), listCommand(), infoCommand(), statusCommand(), configCommand(), goalsCommand(),
			exportCommand(), importCommand(), backupCommand(),
		}, verbCommands()...)},
		{"Work", []*cli.Command{
			sendCommand(), askCommand(), chatCommand(), tickCommand(), alarmCommand(), runCommand(), shellCommand(),
		}},
		{"What happens", []*cli.Command{topCommand(), eventsCommand(), logsCommand(), budgetCommand(), approveCommand(), denyCommand()}},
		{"Files", []*cli.Command{
			lsCommand(), catCommand(), putCommand(), cpCommand(), mkdirCommand(), rmCommand(),
			mountCommand(), umountCommand(), checkCommand(),
		}},
		{"Access", []*cli.Command{tokenCommand(), mcpCommand(), completionCommand()}},
	} {
		for _, c := range group.commands {
			c.Category = group.name
			list = append(list, c)
		}
	}
	return list
}

func noCommand(c *cli.Context) error {
	if name := c.Args().First(); name != "" {
		return usagef("there is no command %q; see agentctl --help", name)
	}
	return cli.ShowAppHelp(c)
}

func usageFailed(_ *cli.Context, err error, _ bool) error {
	return usagef("%v; see agentctl --help", err)
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// interspersed puts the flags of a command before its arguments, where the
// parser wants them, so that they can also come after. What follows "--" is
// left as it is, and so is a lone "-".
func interspersed(app *cli.App, args []string) []string {
	if n := len(args) - 1; n > 1 && args[n] == completionFlag {
		return append(interspersed(app, args[:n]), args[n:]...)
	}
	i := 1
	for ; i < len(args) && isFlag(args[i]); i++ {
		if takesValue(app.Flags, args[i]) {
			i++
		}
	}
	if i >= len(args) || app.Command(args[i]) == nil {
		return args
	}
	flags := app.Command(args[i]).Flags
	front, rest := append([]string(nil), args[:i+1]...), args[i+1:]
	var words []string
	for ; len(rest) > 0; rest = rest[1:] {
		switch {
		case rest[0] == "--":
			return append(append(append(front, "--"), words...), rest[1:]...)
		case !isFlag(rest[0]):
			words = append(words, rest[0])
			continue
		case takesValue(flags, rest[0]) && len(rest) > 1:
			front = append(front, rest[0])
			rest = rest[1:]
		}
		front = append(front, rest[0])
	}
	return append(front, words...)
}

const completionFlag = "--generate-bash-completion"

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// takesValue reports whether arg is a flag whose value is the next argument.
func takesValue(flags []cli.Flag, arg string) bool {
	name := arg[1:]
	if name[0] == '-' {
		name = name[1:]
	}
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				d, ok := f.(cli.DocGenerationFlag)
				return ok && d.TakesValue()
			}
		}
	}
	return false
}
