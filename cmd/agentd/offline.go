package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/open"
)

// An ended command has the exit status that it wants.
type ended struct {
	status int
	error
}

func (e ended) Unwrap() error { return e.error }

// The exit statuses of fsck.
const (
	statusFindings    = 1
	statusCannotCheck = 2
)

// dataDir is the directory that a command on a daemon that does not run is
// about.
func dataDir(c *cli.Context) (string, error) {
	if c.NArg() > 1 {
		return "", usage(fsys.E(fsys.Invalid, fmt.Sprintf("unexpected argument %q; see agentd %s --help", c.Args().Get(1), c.Command.Name)))
	}
	if c.Args().Present() {
		return filepath.Abs(c.Args().First())
	}
	return filepath.Abs(c.Path("data"))
}

func wrongUsage(_ *cli.Context, err error, _ bool) error {
	return usage(fsys.E(fsys.Invalid, err.Error()))
}

func fsckCommand() *cli.Command {
	return &cli.Command{
		Name:      "fsck",
		Usage:     "check what is stored in a data directory that no daemon uses",
		ArgsUsage: "[DIR]",
		Description: `Says each thing that is wrong on a line of its own, with what can be done about
it. --repair mends what can be mended without losing anything, and says what it
did; where money is concerned the line begins with MONEY. What only a person can
decide is left. Nothing is changed without --repair or --reseal.

A record whose checksum is wrong is named with the file that it belongs to. What an
agentd without checksums wrote gets one as it is written again; --reseal gives one to
all of it now, and may be interrupted.

Exit status: 0 nothing is wrong, or all was mended; 1 something is, or the
master key is not here; 2 it cannot be checked:
a daemon uses the directory, or there is no whole database in it.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "repair", Usage: "mend what can be mended without losing anything"},
			&cli.BoolFlag{Name: "reseal", Usage: "give a checksum to each record that an older agentd wrote without one"},
		},
		OnUsageError: wrongUsage,
		Action: func(c *cli.Context) error {
			data, err := dataDir(c)
			if err == nil && c.Bool("reseal") {
				err = reseal(c.Context, data, c.App.Writer)
			}
			if err == nil {
				err = fsck(c.Context, data, c.Bool("repair"), c.App.Writer)
			}
			if e, ok := err.(ended); ok {
				return e
			}
			if err != nil {
				return ended{statusCannotCheck, err}
			}
			return nil
		},
	}
}

func openExisting(data string, readOnly bool) (open.DB, error) {
	return openWith(data, open.Options{Existing: true, ReadOnly: readOnly})
}

// reseal gives every record in a data directory its checksum.
func reseal(ctx context.Context, data string, out printer) error {
	db, err := openExisting(data, false)
	if err != nil {
		return err
	}
	defer db.Close()
	n, err := db.Reseal(ctx)
	if n > 0 {
		fmt.Fprintf(out, "%d records were given a checksum\n", n)
	}
	return err
}

// rounds is how often a repair looks again: what was mended may show what else
// is wrong.
const rounds = 5

type printer interface{ Write([]byte) (int, error) }

func fsck(ctx context.Context, data string, repair bool, out printer) error {
	db, err := openExisting(data, !repair)
	if err != nil {
		return err
	}
	defer db.Close()
	ring, locked, err := ringToCheck(ctx, data, db)
	if err != nil {
		return err
	}
	if locked != nil {
		fmt.Fprintln(out, "keys and secrets are not checked, and agentd would not start: "+fsys.ReasonOf(locked))
	}
	mended, left := 0, 0
	for round := 1; ; round++ {
		r := check.New()
		if err := host.Check(ctx, db, ring, r); err != nil {
			return err
		}
		fixed := 0
		left = 0
		for _, f := range r.All() {
			if !repair || f.Fix == nil || round > rounds {
				left++
				if !repair || f.Fix != nil || round == 1 {
					say(out, f, repair, nil)
				}
				continue
			}
			err := f.Fix(ctx)
			say(out, f, repair, err)
			if err != nil {
				return err
			}
			fixed++
		}
		mended += fixed
		if fixed == 0 {
			break
		}
	}
	if mended > 0 {
		fmt.Fprintf(out, "%d mended\n", mended)
	}
	if locked != nil {
		left++
	}
	if left > 0 {
		return ended{statusFindings, fsys.E(fsys.Internal, fmt.Sprintf("%s: %d findings", data, left))}
	}
	fmt.Fprintln(out, data+": nothing is wrong")
	return nil
}

// say prints one finding.
func say(out printer, f check.Finding, repair bool, err error) {
	line := f.What
	if f.Where != "" {
		line = f.Where + ": " + line
	}
	if f.Money {
		line = "MONEY " + line
	}
	switch {
	case f.Fix == nil:
		line += ". What can be done: " + f.Do
	case !repair:
		line += ". --repair " + f.Do
	case err != nil:
		line += ". It could not be mended: " + fsys.ReasonOf(err)
	default:
		line += ". Mended: " + f.Do
	}
	fmt.Fprintln(out, line)
}

// ringToCheck returns what opens keys and secrets, or nil and why that is not
// here.
func ringToCheck(ctx context.Context, data string, db store.Updater) (ring *identity.KeyRing, locked, err error) {
	passphrase, err := identity.TakePassphrase()
	if err != nil {
		return nil, nil, err
	}
	st := store.Sub(db, host.KeyRingPart)
	if has, err := identity.HasRing(ctx, st); err != nil || !has {
		return nil, nil, nil // a finding of its own
	}
	if len(passphrase) > 0 {
		ring, err = identity.RingFromPassphrase(ctx, st, passphrase)
	} else {
		ring, err = identity.RingFromFile(ctx, st, filepath.Join(data, keyFile))
	}
	if err != nil {
		return nil, err, nil
	}
	return ring, nil, nil
}

func rekeyCommand() *cli.Command {
	return &cli.Command{
		Name:      "rekey",
		Usage:     "seal the keys and secrets in a data directory under another master key",
		ArgsUsage: "[DIR]",
		Description: `Makes a new master.key, or, with --passphrase-file, seals under that passphrase.
What opens them now is master.key, or the passphrase in AGENT9_PASSPHRASE or in the
file that AGENT9_PASSPHRASE_FILE names. No daemon may use the directory.

The old master.key becomes master.key.old: backups that were made before need it.
Delete it when there are none. If the command is interrupted, however, the
next start finds the key that is the right one.`,
		Flags:        []cli.Flag{&cli.PathFlag{Name: "passphrase-file", Usage: "seal under the first line of `FILE`"}},
		OnUsageError: wrongUsage,
		Action: func(c *cli.Context) error {
			data, err := dataDir(c)
			if err != nil {
				return err
			}
			return rekey(c.Context, data, c.Path("passphrase-file"), c.App.Writer)
		},
	}
}

func rekey(ctx context.Context, data, passphraseFile string, out printer) error {
	db, err := openExisting(data, false)
	if err != nil {
		return err
	}
	defer db.Close()
	given, err := identity.TakePassphrase()
	if err != nil {
		return err
	}
	old, err := openRing(ctx, data, db, given)
	if err != nil {
		return err
	}
	path := filepath.Join(data, keyFile)
	var fresh *identity.Fresh
	if passphraseFile == "" {
		fresh, err = identity.FreshFile(path)
	} else {
		var passphrase []byte
		if passphrase, err = identity.ReadPassphrase(passphraseFile); err == nil {
			fresh, err = identity.FreshPassphrase(passphrase, path)
		}
	}
	if err != nil {
		return err
	}
	n, err := host.Rekey(ctx, db, old, fresh)
	if err != nil {
		fresh.Discard()
		return fsys.Wrap(fsys.Internal, "nothing was changed", err)
	}
	kept, err := fresh.Settle()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the keys and secrets of %s are sealed under the new master key\n", plain.Count(n, "agent"))
	if kept != "" {
		fmt.Fprintln(out, "the old one is "+kept+": keep it as long as there are backups that were made before, then delete it")
	}
	return nil
}

// checkDir refuses a data directory that others may write: they could put other
// keys there.
func checkDir(data string) error {
	info, err := os.Stat(data)
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the data directory "+data, err)
	}
	if info.IsDir() && info.Mode().Perm()&0o022 != 0 {
		return fsys.E(fsys.Permission, fmt.Sprintf("the data directory %s can be written by others (%s): chmod 700 it", data, info.Mode()))
	}
	return nil
}
