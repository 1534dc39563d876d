package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/addr"
	"agent9/cmd/internal/money"
	"agent9/cmd/internal/plain"
	"agent9/fsys"
	"agent9/fsys/share"
	"agent9/namespace/budget"
)

// errUsage marks what is wrong with the command line.
var errUsage = errors.New("usage")

// usage says that err is the command line's fault.
func usage(err error) error { return errors.Join(err, errUsage) }

const description = `Serves AI agents as a tree of files. Talk to it with agentctl, or mount it:

   agentd --background
   agentctl create alice
   agentctl mount /n/agents
   echo hello > /n/agents/agents/alice/inbox/new

COMPUTE PROVIDERS
   --compute ID=exec:COMMAND      a program: the last user message on its
                                  standard input, the whole request as JSON in
                                  the file that AGENT9_REQUEST names; what it
                                  prints is the answer
   --compute ID=openai:BASE_URL   a server with OpenAI's API: OpenAI, Ollama,
                                  vLLM, llama.cpp, LM Studio …; the key is in
                                  the variable <ID>_API_KEY, else, for https,
                                  in OPENAI_API_KEY
   --compute ID=openai,price=0:BASE_URL
                                  such a server whose work costs nothing; for
                                  any other, the price of a model must be known
                                  (docs/compute.md, under Prices)
   --compute ID=anthropic:        Anthropic; the key is in <ID>_API_KEY or
                                  ANTHROPIC_API_KEY
   --compute ID=ollama:URL        Ollama's own API
   --compute ID=cloudflare:ACCOUNT
                                  Workers AI; the token is in <ID>_API_KEY or
                                  CLOUDFLARE_API_TOKEN
   --compute ID=echo:             answers with the question
   The first one is the default. Without any, agentd takes what it finds of
   OPENAI_API_KEY (with OPENAI_BASE_URL), ANTHROPIC_API_KEY, OLLAMA_HOST and a
   server on 127.0.0.1:11434, else echo. The work of exec, ollama and echo costs
   nothing, unless an agent's policy has a price for the model.

SANDBOXES
   --containers ID=docker:[HOST]  a Docker engine, or one that speaks its API;
                                  HOST is as DOCKER_HOST has it
   --containers ID=bwrap:[NAME=DIR,...]
                                  bubblewrap, with this machine's /usr, or with
                                  the root file systems that are named
   --unsafe-host-containers       no sandbox at all: what agents want to run
                                  runs as this user, with all that it may do
   The first one is the default. Without any, agentd takes docker if its engine
   answers, else bwrap if that works. The program a9 must be beside agentd.

WHO MAY DO WHAT
   The socket given with --listen unix:PATH, or the default one, is the
   operator's: only the daemon's own user and root get in, and they see every
   agent; so is one given with --http unix:PATH. On TCP, for 9P and HTTP, a token
   is needed (agentctl token), and beyond loopback TLS.

SERVICE MANAGERS
   SIGTERM ends the daemon in order, SIGHUP reads the files of TLS again. Sockets that
   systemd hands over are served; one whose FileDescriptorName is http is for
   HTTP. Then there is no default socket. A manager starts the daemon without
   --background.`

func app() *cli.App {
	return &cli.App{
		Name:                   "agentd",
		Usage:                  "serve AI agents as files over 9P",
		ArgsUsage:              " ",
		Version:                version(),
		Description:            description,
		EnableBashCompletion:   true,
		UseShortOptionHandling: true,
		HideHelpCommand:        true,
		// Commands and lists of folders have commas.
		DisableSliceFlagSeparator: true,
		// Names and texts that others chose are in what a person reads here.
		Writer:         plain.NewWriter(os.Stdout),
		ErrWriter:      plain.NewWriter(os.Stderr),
		Commands:       []*cli.Command{fsckCommand(), rekeyCommand()},
		ExitErrHandler: func(*cli.Context, error) {}, // main prints it
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usage(fsys.E(fsys.Invalid, err.Error()+"; see agentd --help"))
		},
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "data", Usage: "keep everything in `DIR`", EnvVars: []string{"AGENT9_DATA"}, Value: addr.DefaultData()},
			&cli.StringSliceFlag{Name: "listen", Usage: "serve 9P at `ADDR`: unix:PATH or tcp:HOST:PORT; can be given again (default: unix:" + addr.DefaultSocket() + ")"},
			&cli.StringSliceFlag{Name: "http", Usage: "serve HTTP at `ADDR`: HOST:PORT or unix:PATH; can be given again"},
			&cli.StringSliceFlag{Name: "http-cors", Usage: "let the web pages of `ORIGIN`, such as https://example.com, send requests"},
			&cli.StringSliceFlag{Name: "http-host", Usage: "a `NAME` besides localhost by which clients reach HTTP on a loopback address"},
			&cli.PathFlag{Name: "mount", Usage: "mount the operator's tree at `DIR` with FUSE"},
			&cli.StringSliceFlag{Name: "compute", Usage: "a provider of models, `ID=DRIVER:TARGET`; can be given again"},
			&cli.StringSliceFlag{Name: "containers", Usage: "a provider of sandboxes, `ID=DRIVER:TARGET`; can be given again"},
			&cli.BoolFlag{Name: "unsafe-host-containers", DisableDefaultText: true, Usage: "run what agents want to run with all the rights of this user; for trusted development only"},
			&cli.PathFlag{Name: "tls-cert", Usage: "certificate `FILE` (PEM) for TCP and HTTP"},
			&cli.PathFlag{Name: "tls-key", Usage: "key `FILE` (PEM) of the certificate"},
			&cli.PathFlag{Name: "tls-client-ca", Usage: "let in clients whose certificate is signed by one in `FILE`, as the agent that its common name names"},
			&cli.StringFlag{Name: "per-day", Usage: "let an agent without limits of its own spend `AMOUNT` in a UTC day, such as '$2' or 50c", Value: "$1"},
			&cli.IntFlag{Name: "max-ticks", Usage: "run the programs of at most `N` agents at once", Value: 64},
			&cli.IntFlag{Name: "max-connections", Usage: "serve at most `N` clients at once at each address, and on each agent's own socket", Value: 4096},
			&cli.Int64Flag{Name: "max-memory", Usage: "let all clients together make the daemon hold at most `MB`", Value: 512},
			&cli.BoolFlag{Name: "background", DisableDefaultText: true, Usage: "return when the daemon serves, which goes on by itself; its log is DIR/" + logName},
			&cli.BoolFlag{Name: "debug", DisableDefaultText: true, Usage: "log more"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage(fsys.E(fsys.Invalid, fmt.Sprintf("unexpected argument %q; see agentd --help", c.Args().First())))
			}
			amount, err := money.Parse(c.String("per-day"))
			if err != nil {
				return usage(fsys.E(fsys.Invalid, "--per-day: "+fsys.ReasonOf(err)))
			}
			perDay := budget.Micros(amount)
			if c.Int("max-ticks") < 1 {
				return usage(fsys.E(fsys.Invalid, "--max-ticks must be at least 1"))
			}
			if c.Int("max-connections") < 1 || c.Int64("max-memory") < 1 || c.Int64("max-memory") > 1<<30 {
				return usage(fsys.E(fsys.Invalid, "--max-connections and --max-memory must be at least 1"))
			}
			if c.Bool("background") && !inBackground() {
				return background(c.Context, c.App.ErrWriter, c.Path("data"))
			}
			boundMemory(c.Int64("max-memory") << 20)
			return serve(c.Context, settings{
				ready:      readiness(),
				data:       c.Path("data"),
				listen:     c.StringSlice("listen"),
				http:       c.StringSlice("http"),
				httpCORS:   c.StringSlice("http-cors"),
				httpHosts:  c.StringSlice("http-host"),
				mount:      c.Path("mount"),
				compute:    c.StringSlice("compute"),
				containers: c.StringSlice("containers"),
				unsafeHost: c.Bool("unsafe-host-containers"),
				cert:       c.Path("tls-cert"),
				key:        c.Path("tls-key"),
				clientCA:   c.Path("tls-client-ca"),
				limits:     budget.Limits{PerDay: &perDay},
				maxTicks:   c.Int("max-ticks"),
				maxConns:   c.Int("max-connections"),
				pool:       share.NewPool(c.Int64("max-memory")<<20, mostConns()),
				debug:      c.Bool("debug"),
				messages:   c.App.ErrWriter,
				getenv:     os.Getenv,
				listening:  func(at string) { fmt.Fprintln(c.App.ErrWriter, "listening on "+at) },
			})
		},
	}
}
