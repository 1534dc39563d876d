package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func importCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "make an agent of a bundle that export wrote",
		ArgsUsage: "[FILE]",
		Description: `Reads the bundle from FILE or standard input. The mode restore makes the agent
that was exported, with all that it had; what it was doing then has been
interrupted, and is settled. It needs the private key in the bundle
(export --with-keys) and its passphrase, or --new-identity, with which the agent
gets another key. The mode clone makes a new agent with the same settings,
goals and skills, and nothing of what the other one has done or spent.

Either the whole agent is made, or nothing.

   agentctl import --with-keys < alice.tar
   agentctl import --new-identity alice.tar
   agentctl import --mode clone --as bob < alice.tar`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "the `NAME` of the agent; without it that in the bundle"},
			&cli.StringFlag{Name: "mode", Usage: "`MODE`: restore or clone", Value: "restore"},
			&cli.BoolFlag{Name: "with-keys", Usage: "open the keys in the bundle with their passphrase"},
			&cli.BoolFlag{Name: "new-identity", Usage: "make another key, whether or not one is in the bundle"},
			passphraseFlag(),
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, "at most one file"),
		Action: attached(func(s *session) error {
			if _, err := s.bundles(); err != nil {
				return err
			}
			in := input(s.Context.Context, s.App.Reader)
			if file := s.Args().First(); file != "" && file != "-" {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			wish, err := s.importWish()
			if err != nil {
				return err
			}
			h, err := s.open("bundles/new", fsys.Read|fsys.Write)
			if err != nil {
				return at("bundles/new", err)
			}
			if _, err = fsys.WriteAt(s.Context.Context, h, wish, 0); err == nil {
				m := s.newMeter(false)
				err = writeAll(s.Context.Context, h, m.reader(in))
				m.done()
			}
			var reply []byte
			if err == nil {
				reply, err = fsys.ReadAll(s.Context.Context, h)
			}
			if err := s.finish(h, err); err != nil {
				return err
			}
			return s.imported(reply)
		}),
	}
}

// importWish is what goes before the bundle.
func (s *session) importWish() ([]byte, error) {
	wish := struct {
		Name        string `json:"name,omitempty"`
		Mode        string `json:"mode"`
		NewIdentity bool   `json:"new_identity,omitempty"`
		Passphrase  string `json:"passphrase,omitempty"`
	}{Name: s.String("as"), Mode: s.String("mode"), NewIdentity: s.Bool("new-identity")}
	if s.Bool("with-keys") {
		var err error
		if wish.Passphrase, err = s.passphrase(false); err != nil {
			return nil, err
		}
	}
	return fsys.Line(wish), nil
}

// imported says what was made: its name, and what a person should know.
func (s *session) imported(reply []byte) error {
	var made struct {
		Name, Mode, Of, Pubkey string
		Was                    string `json:"was_pubkey"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(reply), &made); err != nil {
		return at("bundles/new", err)
	}
	if made.Was != "" && made.Mode != "clone" {
		notice(s.App.ErrWriter, "%s has a new identity: its public key is %s, and was %s", made.Name, made.Pubkey, made.Was)
	}
	_, err := fmt.Fprintln(s.App.Writer, "agents/"+made.Name)
	return err
}
