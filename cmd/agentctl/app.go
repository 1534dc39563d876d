package main

import (
	"context"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"

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
			&cli.BoolFlag{Name: "tls", EnvVars: []string{"AGENT9_TLS"}, DisableDefaultText: true, Usage: "use TLS with the system's certificates"},
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
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true
			}
		}
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
			sendCommand(), untakeCommand(), askCommand(), chatCommand(), tickCommand(), alarmCommand(), runCommand(), shellCommand(),
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
		if line, ok := guesses[strings.ToLower(name)]; ok {
			return usagef("there is no command %q; did you mean %s?; see agentctl --help", name, line)
		}
		return usagef("there is no command %q%s; see agentctl --help", name, meant(name, c.App.Commands))
	}
	return cli.ShowAppHelp(c)
}

// meant is the question whether a command with a name much like name was meant,
// or "".
func meant(name string, list []*cli.Command) string {
	best, most := "", 0.8
	for _, c := range list {
		for _, n := range c.Names() {
			if like := smetrics.JaroWinkler(name, n, 0.7, 4); like > most {
				best, most = n, like
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func usageFailed(c *cli.Context, err error, _ bool) error {
	return refusedFlag(c, err)
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
// left as it is, and so is a lone "-"; so is what follows the first word of a
// command that is to be run. Help is given whatever else is there.
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
	if i+1 < len(args) && (args[i] == "help" || args[i] == "h") && !isFlag(args[i+1]) {
		return append(args[:i:i], args[i+1], "--help") // which says what may be meant
	}
	if i >= len(args) || app.Command(args[i]) == nil {
		return args
	}
	flags := app.Command(args[i]).Flags
	front, rest := append([]string(nil), args[:i+1]...), args[i+1:]
	var words []string
	for ; len(rest) > 0; rest = rest[1:] {
		if n := globalFlag(app.Flags, flags, rest); n > 0 {
			at := len(args) - len(rest)
			return interspersed(app, slices.Concat(args[:i], args[at:at+n], args[i:at], args[at+n:]))
		}
		switch {
		case rest[0] == "--":
			return append(append(append(front, "--"), words...), rest[1:]...)
		case rest[0] == "--help" || rest[0] == "-h":
			return append(front[:i+1:i+1], "--help")
		case !isFlag(rest[0]) && ownWords(app.Command(args[i]).Name, words) >= 0 && len(words) >= ownWords(app.Command(args[i]).Name, append(words, rest[0])):
			return append(append(append(front, "--"), words...), rest...)
		case !isFlag(rest[0]):
			words = append(words, rest[0])
			continue
		case takesValue(flags, rest[0]) && len(rest) == 1:
			return append(front, rest[0]) // which the parser refuses
		case takesValue(flags, rest[0]):
			front = append(front, rest[0])
			rest = rest[1:]
		}
		front = append(front, rest[0])
	}
	return append(front, words...)
}

// globalFlag is how many of the words that rest begins with are one of the
// flags of all commands, with its value; 0 if the command has its own of that name.
func globalFlag(global, own []cli.Flag, rest []string) int {
	if !isFlag(rest[0]) || rest[0] == "--" {
		return 0
	}
	name, _, whole := strings.Cut(rest[0], "=")
	if flagNamed(own, name) != nil || flagNamed(global, name) == nil {
		return 0
	}
	if !whole && takesValue(global, name) && len(rest) > 1 {
		return 2
	}
	return 1
}

// ownWords is how many of the arguments come before the command that is to be
// run; less than 0 if none is to be.
func ownWords(command string, words []string) int {
	switch {
	case command == "run", command == "shell" && (len(words) < 2 || !isNumber(words[1])):
		return 1
	case command == "shell":
		return 2
	}
	return -1
}

const completionFlag = "--generate-bash-completion"

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// takesValue reports whether arg is a flag whose value is the next argument.
func takesValue(flags []cli.Flag, arg string) bool {
	d, ok := flagNamed(flags, arg).(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// flagNamed returns the flag that arg is, without a value; nil if it is none.
func flagNamed(flags []cli.Flag, arg string) cli.Flag {
	name := strings.TrimPrefix(arg[1:], "-")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}
