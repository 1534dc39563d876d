// Package skills serves what an agent knows how to do, as ordinary files:
//
//	<name>.md   Stored: Markdown that begins with a header
//
// The header is the first lines of the file, between two lines of three
// dashes; it says what the skill is called and what it is good for, and what
// else it says is for who reads it:
//
//	---
//	name: review
//	description: How we review a change, and what we look for.
//	---
//	Read the whole change before you say anything.
//
// Files are written in pieces, so a file without such a header is kept. It is
// not given to programs, and that is told: the event skill.invalid says what
// is wrong with it. Directories and files that are not called *.md are kept
// too, as what skills refer to; only *.md at the top are skills.
//
// Events: skill.created, skill.changed (once per writer, not per write),
// skill.renamed, skill.removed and skill.invalid.
package skills

import (
	"context"
	"strings"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/files"
)

// A Service is the skills of one agent.
type Service struct {
	tree *files.Tree
	note store.Note
}

var _ fsys.FileService = (*Service)(nil)

// Open returns the skills that are kept in st, which may be empty.
func Open(ctx context.Context, st store.Updater, note store.Note) (*Service, error) {
	s := &Service{note: note}
	var err error
	s.tree, err = files.New(ctx, st, files.Options{MaxFile: 1 << 20, MaxBytes: 32 << 20, MaxEntries: 1000, Note: s.changed})
	return s, err
}

// Root returns the files.
func (s *Service) Root() fsys.Node { return s.tree.Root() }

// A File is what a program is given of the skills.
type File struct {
	Name string // a path below skills/
	Data []byte
}

// Files returns the skills with a valid header, and all that is not a skill
// but lies beside them, as one moment sees them.
func (s *Service) Files(ctx context.Context) ([]File, error) {
	all, err := s.tree.All(ctx)
	if err != nil {
		return nil, err
	}
	var given []File
	for _, f := range all {
		if isSkill(f.Path) {
			if _, err := ParseHeader(f.Data); err != nil {
				continue
			}
		}
		given = append(given, File{f.Path, f.Data})
	}
	return given, nil
}

func isSkill(path string) bool {
	return strings.HasSuffix(path, ".md") && !strings.Contains(path, "/")
}

// told is the detail of an event about a file.
type told struct {
	Skill string      `json:"skill"`
	To    string      `json:"to,omitempty"`
	Dir   bool        `json:"dir,omitempty"`
	Size  int64       `json:"size"`
	By    fsys.Caller `json:"by,omitempty"`
}

type invalid struct {
	Skill  string      `json:"skill"`
	Reason string      `json:"reason"`
	By     fsys.Caller `json:"by,omitempty"`
}

func (s *Service) changed(ctx context.Context, tx store.Store, c files.Change) error {
	by := fsys.CallerOf(ctx)
	if err := s.note.Record(tx, "skill."+string(c.Op), told{c.Path, c.To, c.Dir, c.Size, by}); err != nil {
		return err
	}
	name := c.Path
	if c.Op == files.Renamed {
		name = c.To
	}
	// An empty file is one that is about to be written.
	if c.Dir || c.Size == 0 || !isSkill(name) || c.Op != files.Changed && c.Op != files.Renamed {
		return nil
	}
	data, err := s.tree.ReadIn(ctx, tx, c.Path) // the old name still is the file's
	if err != nil {
		return err
	}
	if _, wrong := ParseHeader(data); wrong != nil {
		return s.note.Record(tx, "skill.invalid", invalid{name, fsys.ReasonOf(wrong), by})
	}
	return nil
}
