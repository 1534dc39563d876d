package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func lsCommand() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list directories",
		ArgsUsage: "[PATH...]",
		Description: `With -l: mode, size in bytes, time of the last change, name. The first letter
of the mode is d for a directory, m for a message file (write a request, read
the reply), s for a stream (reading follows it), - for any other file.

All names are shown, also those that listings of mounts do not have, because
reading them takes something away, starts something, or waits for an event.

   agentctl ls
   agentctl ls -l agents/alice`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "mode, size and time too"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "as without it: all names are shown"},
		},
		OnUsageError: usageFailed,
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			paths := s.Args().Slice()
			if len(paths) == 0 {
				paths = []string{"/"}
			}
			first := true
			return each(s.Context.Context, s.App.ErrWriter, paths, func(p string) error {
				if len(paths) > 1 && !first {
					fmt.Fprintln(s.App.Writer)
				}
				first = false
				return at(p, s.ls(p, len(paths) > 1))
			})
		}, listAll),
	}
}

func (s *session) ls(p string, titled bool) error {
	n, err := s.walk(p)
	if err != nil {
		return err
	}
	entries, err := fsys.List(s.Context.Context, n)
	if fsys.CodeOf(err) == fsys.NotDir && err != nil {
		entries, err, titled = []fsys.Entry{{Name: p, Node: n}}, nil, false
	}
	if err != nil {
		return err
	}
	if titled {
		fmt.Fprintf(s.App.Writer, "%s:\n", plain.Line(cmp.Or(path.Clean(p), "/")))
	}
	if s.Bool("long") {
		return s.long(entries)
	}
	for _, e := range entries {
		if _, err := io.WriteString(s.App.Writer, plain.Line(e.Name)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// long prints a line for each entry. What disappeared meanwhile is left out.
func (s *session) long(entries []fsys.Entry) error {
	infos := make([]fsys.Info, len(entries))
	errs := make([]error, len(entries))
	parallel(len(entries), func(i int) { infos[i], errs[i] = s.stat(entries[i].Node) })
	width := 0
	for _, info := range infos {
		width = max(width, len(strconv.FormatInt(info.Size, 10)))
	}
	for i, e := range entries {
		err := errs[i]
		if err != nil && fsys.CodeOf(err) == fsys.NotExist {
			continue
		}
		if err == nil {
			_, err = fmt.Fprintf(s.App.Writer, "%s %*d %-20s %s\n", mode(infos[i]), width, infos[i].Size, when(infos[i].ModTime), plain.Line(e.Name))
		}
		if err != nil {
			return at(e.Name, err)
		}
	}
	return nil
}

// stat uses what the listing said, if it said everything.
func (s *session) stat(n fsys.Node) (fsys.Info, error) {
	if l, ok := n.(interface{ Listed() (fsys.Info, bool) }); ok {
		if info, ok := l.Listed(); ok {
			return info, nil
		}
	}
	return n.Stat(s.Context.Context)
}

func mode(info fsys.Info) string {
	kind := "-dms"
	b := []byte("-rwxrwxrwx")
	b[0] = kind[info.Kind]
	for i := range 9 {
		if info.Perm&(1<<(8-i)) == 0 {
			b[1+i] = '-'
		}
	}
	return string(b)
}

func when(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}
