package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A box is a session of /containers that was asked for.
type box struct {
	number string
	key    string
	ended  string
	gone   bool // to remove it was begun
	out    bool // … and acknowledged
}

// sandboxPromises are about sessions of sandboxes, by the providers that the
// returned arguments give a daemon.
func sandboxPromises(t *testing.T) ([]promise, []string) {
	daemon.HelperFor(t)
	var boxes []*box
	providers := []string{unsafeHost}
	return []promise{{name: "BoxesEnd", acts: 4,
		begins: func(p *promised, r *daemon.Tree) {
			r.Write(p.at("containers/policy"), with(prices))
			if strings.Contains(r.Read(p.at("containers/providers/main/health")), `"ok":true`) {
				providers = append(providers, "main")
			}
		},
		act: func(p *promised, r *daemon.Tree, n int) error {
			if kept := slices.DeleteFunc(slices.Clone(boxes), func(b *box) bool { return b.gone }); len(kept) > 0 && p.rng.IntN(3) == 0 {
				b := kept[p.rng.IntN(len(kept))]
				b.gone = true
				err := r.TryRemove(p.at("containers/sessions/" + b.number + "/status")) // as rm -r begins
				if err == nil {
					err = r.TryRemove(p.at("containers/sessions/" + b.number))
				}
				b.out = err == nil
				return err
			}
			b := &box{key: fmt.Sprint("box", n)}
			number, err := b.asks(p, r, providers)
			if err == nil {
				b.number = number
				boxes = append(boxes, b)
			}
			return err
		},
		holds: func(p *promised, r *daemon.Tree) {
			there := strings.Fields(r.List(p.at("containers/sessions")))
			spent := 0
			for _, b := range boxes {
				if b.out {
					if slices.Contains(there, b.number) {
						p.Errorf("%s, which was removed, is there", b.number)
					}
				}
				if !slices.Contains(there, b.number) {
					if !b.gone {
						p.Errorf("%s, which was acknowledged, is not there", b.number)
					}
					continue
				}
			}
			known := map[string]int{}
			for _, n := range there {
				text := r.Read(p.at("containers/sessions/" + n + "/result"))
				var result sessionResult
				daemon.Parse(p.T, text, &result)
				if result.State != "done" && !(result.State == "failed" && result.Error.Reason == "interrupted") {
					p.Errorf("session %s is %s", n, text)
				}
				known[n] = int(result.Cost)
				for _, b := range boxes {
					if b.number == n {
						if b.ended != "" && b.ended != text {
							p.Errorf("session %s had ended as %s and is %s", n, b.ended, text)
						}
						b.ended = text
					}
				}
			}
			var usage struct {
				Held  int `json:"held_microusd"`
				Spent int `json:"spent_microusd"`
			}
			daemon.Parse(p.T, r.Read(p.at("containers/usage")), &usage)
			books := daemon.Summary(p.T, r.Read(p.at("budget/usage")))
			daemon.Equal(p.T, "the ledger", daemon.Replay(p.T, r.Tail(p.at("budget/ledger"))), books)
			daemon.Equal(p.T, "held, and spent", daemon.Sums{Held: usage.Held, Spent: usage.Spent}, daemon.Sums{Spent: books.Spent})
			daemon.Equal(p.T, "holds", books.Holds, 0)
			for _, cost := range known {
				spent += cost
			}
			if spent > books.Spent {
				p.Errorf("the sessions cost %d, and %d was spent", spent, books.Spent)
			}
			p.folders(len(there))
		}}}, []string{"--containers", "main=bwrap:", "--unsafe-host-containers"}
}

// asks asks for the session, for an instant or for longer than the daemon
// lives.
func (b *box) asks(p *promised, r *daemon.Tree, providers []string) (number string, err error) {
	request := with(map[string]any{"idempotency_key": b.key, "provider": providers[p.rng.IntN(len(providers))],
		"commands": []string{"echo $$ > file; sleep " + []string{"0", "1000"}[p.rng.IntN(2)]}})
	reply, err := fsys.Converse(daemon.Within(p.T), r.Root, p.at("containers/new"), []byte(request))
	return strings.TrimSpace(string(reply)), err
}

// folders waits until there are no more sandboxes than sessions.
func (p *promised) folders(sessions int) {
	p.Helper()
	var dirs []string
	daemon.Eventually(p.T, fmt.Sprintf("no more sandboxes than %d sessions", sessions), func() bool {
		dirs, _ = filepath.Glob(p.d.Data() + "/containers/*/sandboxes/*")
		return len(dirs) <= sessions
	})
}

// strayGroups are the control groups of sandboxes.
func strayGroups(d *daemon.Daemon) (stray []string) {
	dir, err := filepath.EvalSymlinks(d.Data())
	if err != nil {
		return nil
	}
	sum := sha256.Sum256([]byte(filepath.Join(dir, "containers", "main")))
	name := "agent9-" + hex.EncodeToString(sum[:4])
	filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir():
		case filepath.Base(filepath.Dir(path)) == name:
			stray = append(stray, path)
			return fs.SkipDir
		}
		return nil
	})
	return stray
}
