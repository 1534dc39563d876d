// Package profiles keeps what agents are made from, as ordinary files of the
// operator's:
//
//	<name>/          a profile
//	  README         for people; no agent gets it, nor what begins with a dot
//	  <path>         what the file <path> of the agent begins with: config,
//	                 budget/limits, compute/policy, goals/…, skills/…
//
// In a file {{VARIABLE}} stands for what is given when an agent is made. A
// variable has capital letters, digits and _, and begins with a letter; other
// text in braces is left as it is. NAME is always given, and is the agent's
// name. In a file that is JSON a value is written as a part of a JSON string,
// so that no value can change what else the file says.
package profiles

import (
	"context"
	"errors"
	"strings"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/files"
)

// Default is the name of the profile from which an agent is made when none is
// named, if there is one.
const Default = "default"

// A File is one of a profile. Its path is that in the agent's tree.
type File = files.File

// Profiles are the profiles of a host.
type Profiles struct{ tree *files.Tree }

var _ fsys.FileService = (*Profiles)(nil)

// Open returns the profiles that are kept in st, which may be empty.
func Open(ctx context.Context, st store.Updater) (*Profiles, error) {
	tree, err := files.New(ctx, st, files.Options{MaxFile: 1 << 20, MaxBytes: 64 << 20, MaxEntries: 10_000})
	return &Profiles{tree}, err
}

// Root returns the files.
func (p *Profiles) Root() fsys.Node { return p.tree.Root() }

// Exists reports whether there is a profile of this name.
func (p *Profiles) Exists(ctx context.Context, name string) (bool, error) {
	n, err := fsys.Walk(ctx, p.tree.Root(), name)
	if errors.Is(err, fsys.NotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := n.Stat(ctx)
	return info.Kind == fsys.Directory, err
}

// Files returns the files of the profile called name, as one moment sees them.
func (p *Profiles) Files(ctx context.Context, name string) ([]File, error) {
	if ok, err := p.Exists(ctx, name); err != nil {
		return nil, err
	} else if !ok {
		return nil, fsys.E(fsys.NotExist, "there is no profile "+name+"; mkdir profiles/"+name+" makes one")
	}
	all, err := p.tree.All(ctx)
	var own []File
	for _, f := range all {
		if path, ok := strings.CutPrefix(f.Path, name+"/"); ok {
			own = append(own, File{Path: path, Data: f.Data})
		}
	}
	return own, err
}
