package main

import (
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func cpCommand() *cli.Command {
	return &cli.Command{
		Name:      "cp",
		Usage:     "copy files between this machine and agents",
		ArgsUsage: "FROM... TO",
		Description: `FROM and TO are files and directories of this machine, or AGENT:PATH in an
agent's tree; :PATH is a path in all that can be seen. Mode and time of the last
change are kept where the place has them. A file of this machine is replaced
when its copy is whole. A directory goes into the one that TO is; one written as
FROM/. is merged with it. Of a stream, what it has now is copied. What cannot be
copied from a tree (message files) or from a machine (devices, sockets) is left
out, and said.

   agentctl cp alice:containers/sessions/3/files/workspace/out.tar .
   agentctl cp -r ./plan alice:goals
   agentctl cp -r alice:state bob:state
   agentctl cp ./a:b alice:goals/a-b`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "what is in a directory, too"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
		},
		OnUsageError: usageFailed,
		Before:       takes(2, -1, "what to copy or where to"),
		BashComplete: completeCopy,
		Action:       attached(cp),
	}
}

func cp(s *session) error {
	args := s.Args().Slice()
	places := make([]place, len(args))
	remote := 0
	for i, arg := range args {
		var err error
		if places[i], err = s.place(arg); err != nil {
			return err
		}
		if _, is := places[i].(*treePlace); is {
			remote++
		}
	}
	if remote == 0 {
		return usagef("cp: all of it is on this machine; a path in an agent's tree is written AGENT:PATH")
	}
	from, to := places[:len(places)-1], places[len(places)-1]
	target, err := to.look()
	there := err == nil
	if err != nil && fsys.CodeOf(err) != fsys.NotExist {
		return at(to.String(), err)
	}
	into := there && target.dir
	if !into && (len(from) > 1 || endsInSlash(args[len(args)-1]) && !s.Bool("recursive")) {
		return at(to.String(), fsys.E(fsys.NotDir, "no such directory to copy into"))
	}
	c := &copying{session: s, meter: s.newMeter(s.Bool("quiet"))}
	defer c.meter.done()
	for i, f := range from {
		dest := to
		if base := f.base(); into && base != "" && !strings.HasSuffix(filepath.ToSlash(args[i]), "/.") {
			dest = to.join(base)
		}
		c.top(f, dest)
	}
	c.meter.done()
	if c.skipped > 0 {
		notice(s.App.ErrWriter, "%d were left out, such as %s", c.skipped, c.example)
	}
	return c.failed
}

func endsInSlash(arg string) bool {
	return strings.HasSuffix(arg, "/") || strings.HasSuffix(arg, string(filepath.Separator))
}

// place returns what arg names.
func (s *session) place(arg string) (place, error) {
	name, p, remote := strings.Cut(arg, ":")
	if !remote || strings.ContainsAny(name, `/\`) || filepath.VolumeName(arg) != "" {
		return &diskPlace{session: s, path: filepath.Clean(arg), name: arg}, nil
	}
	dir, err := s.treeOf(name)
	return &treePlace{session: s, path: join(dir, p), own: clean(p), name: arg}, err
}

// treeOf returns the directory of an agent's tree; without a name it is all
// that can be seen.
func (s *session) treeOf(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return s.agent(name)
}
