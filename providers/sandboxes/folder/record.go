//go:build unix

package folder

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

const (
	recordFile   = "record.json"
	workspaceDir = "workspace"
	skillsDir    = "skills"
	workDir      = "work"
)

// record is what is known of a sandbox on disk.
type record struct {
	Name      string           `json:"name"`
	Agent     string           `json:"agent,omitempty"`
	Image     string           `json:"image,omitempty"`
	Limits    sandboxes.Limits `json:"limits"`
	Workspace string           `json:"workspace,omitempty"`
	Created   time.Time        `json:"created"`
	Used      sandboxes.Usage  `json:"used"`          // of the runs that ended
	Run       *Process         `json:"run,omitempty"` // that goes on
}

func loadRecord(dir string) (record, error) {
	var r record
	p, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(p, &r)
	return r, fsys.Wrap(fsys.Internal, "the record of sandbox "+filepath.Base(dir), err)
}

// save replaces the record in dir, whole or not at all.
func (r record) save(dir string) error {
	p, err := json.Marshal(r)
	if err != nil {
		return err
	}
	half, err := os.CreateTemp(dir, "."+recordFile+"-")
	if err == nil {
		_, err = half.Write(append(p, '\n'))
		err = errors.Join(err, half.Close())
		if err == nil {
			err = os.Rename(half.Name(), filepath.Join(dir, recordFile))
		}
		if err != nil {
			os.Remove(half.Name())
		}
	}
	return fsys.Wrap(fsys.Internal, "the record of a sandbox", err)
}

// add returns the usage of two runs, one after the other.
func add(a, b sandboxes.Usage) sandboxes.Usage {
	return sandboxes.Usage{
		CPU:      a.CPU + b.CPU,
		Memory:   max(a.Memory, b.Memory),
		Sent:     a.Sent + b.Sent,
		Received: a.Received + b.Received,
		OOMKills: a.OOMKills + b.OOMKills,
		Wall:     a.Wall + b.Wall,
	}
}
