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
	helperFor(t)
	var boxes []*box
	providers := []string{unsafeHost}
	return []promise{{name: "BoxesEnd", acts: 4,
		begins: func(p *promised, r *tree) {
			r.write(p.at("containers/policy"), with(prices))
			if strings.Contains(r.read(p.at("containers/providers/main/health")), `"ok":true`) {
				providers = append(providers, "main")
			}
		},
		act: func(p *promised, r *tree, n int) error {
			if kept := slices.DeleteFunc(slices.Clone(boxes), func(b *box) bool { return b.gone }); len(kept) > 0 && p.rng.IntN(3) == 0 {
				b := kept[p.rng.IntN(len(kept))]
				b.gone = true
				err := r.tryRemove(p.at("containers/sessions/" + b.number + "/status")) // as rm -r begins
				if err == nil {
					err = r.tryRemove(p.at("containers/sessions/" + b.number))
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
		holds: func(p *promised, r *tree) {
			there := strings.Fields(r.list(p.at("containers/sessions")))
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
				text := r.read(p.at("containers/sessions/" + n + "/result"))
				var result sessionResult
				parse(p.T, text, &result)
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
			parse(p.T, r.read(p.at("containers/usage")), &usage)
			books := summary(p.T, r.read(p.at("budget/usage")))
			equal(p.T, "the ledger", replay(p.T, r.tail(p.at("budget/ledger"))), books)
			equal(p.T, "held, and spent", sums{held: usage.Held, spent: usage.Spent}, sums{spent: books.spent})
			equal(p.T, "holds", books.holds, 0)
			for _, cost := range known {
				spent += cost
			}
			if spent > books.spent {
				p.Errorf("the sessions cost %d, and %d was spent", spent, books.spent)
			}
			p.folders(len(there))
		}}}, []string{"--containers", "main=bwrap:", "--unsafe-host-containers"}
}

// asks asks for the session, for an instant or for longer than the daemon
// lives.
func (b *box) asks(p *promised, r *tree, providers []string) (number string, err error) {
	request := with(map[string]any{"idempotency_key": b.key, "provider": providers[p.rng.IntN(len(providers))],
		"commands": []string{"echo $$ > file; sleep " + []string{"0", "1000"}[p.rng.IntN(2)]}})
	reply, err := fsys.Converse(within(p.T), r.root, p.at("containers/new"), []byte(request))
	return strings.TrimSpace(string(reply)), err
}

// folders waits until there are no more sandboxes than sessions.
func (p *promised) folders(sessions int) {
	p.Helper()
	var dirs []string
	eventually(p.T, fmt.Sprintf("no more sandboxes than %d sessions", sessions), func() bool {
		dirs, _ = filepath.Glob(p.d.data() + "/containers/*/sandboxes/*")
		return len(dirs) <= sessions
	})
}

// strayGroups are the control groups of sandboxes.
func (d *daemon) strayGroups() (stray []string) {
	dir, err := filepath.EvalSymlinks(d.data())
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
