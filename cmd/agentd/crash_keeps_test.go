package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// keeps is what is promised of what is kept: messages, files, settings, who
// there is, and what was said.
func keeps() []promise {
	return []promise{
		storedFiles("Goals", ""), storedFiles("State", ""), storedFiles("Skills", ".md"),
		messages(), deadLetters(), sentMessages(), come(), tokensKept(), secretNames(), settingsKept(), ownLines(), conversations(),
	}
}

// storedFiles is a directory of an agent whose files are written, renamed and
// removed.
func storedFiles(name, suffix string) promise {
	var h history
	dir := strings.ToLower(name)
	return promise{name: name + "Stored", acts: 40,
		act: func(p *promised, r *daemon.Tree, n int) error {
			file := fmt.Sprint("f", p.rng.IntN(6), suffix)
			_, there := h.now[file]
			text := fmt.Sprintf("%d %s", n, strings.Repeat("x", p.rng.IntN(6000)))
			switch p.rng.IntN(4) {
			case 0:
				if there {
					return h.do(func() error { return r.TryRemove(p.at(dir + "/" + file)) }, cut(file))
				}
			case 1:
				if to := fmt.Sprint("f", p.rng.IntN(6), suffix); there && to != file {
					return h.do(func() error {
						d, err := fsys.WalkPath(daemon.Within(p.T), r.Root, p.at(dir))
						if err != nil {
							return err
						}
						return fsys.Rename(daemon.Within(p.T), d, file, to)
					}, move(file, to))
				}
			}
			if there {
				return h.do(func() error { return r.TryWrite(p.at(dir+"/"+file), text) }, put(file, ""), put(file, text))
			}
			return h.do(func() error { return r.TryMake(p.at(dir), file, text) }, put(file, ""), put(file, text))
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			for file := range strings.FieldsSeq(r.List(p.at(dir))) {
				got[file] = r.Read(p.at(dir + "/" + file))
			}
			h.is(p, dir, got)
		}}
}

// mail adds the messages in a directory to a world, by prefix and id.
func (p *promised) mail(r *daemon.Tree, dir, prefix string, into world) {
	p.Helper()
	for id := range strings.FieldsSeq(r.List(p.at(dir))) {
		if !strings.HasPrefix(id, "m") {
			continue // a file of the service
		}
		if _, twice := into[prefix+id]; twice {
			p.Errorf("%s has %s twice", dir, id)
		}
		into[prefix+id] = body(p.T, r.Read(p.at(dir+"/"+id)))
	}
}

// body returns that of a message, or of one in /deadletter.
func body(t *testing.T, text string) string {
	t.Helper()
	var m struct {
		Body    string
		Message struct{ Body string }
	}
	daemon.Parse(t, text, &m)
	return m.Body + m.Message.Body
}

// messages are sent, sent again, taken and removed; the oldest is first.
func messages() promise {
	var h history
	var sent []int // that were acknowledged
	id := func(n int) string { return fmt.Sprintf("m%06d", n) }
	send := func(p *promised, r *daemon.Tree, n int) error {
		return r.TryWrite(p.at("inbox/new"), fmt.Sprintf(`{"id":%q,"body":"%d"}`, id(n), n))
	}
	return promise{name: "MessagesKept", acts: 40, more: `"inbox":{"limit":10000}`,
		act: func(p *promised, r *daemon.Tree, n int) error {
			waiting := slices.Sorted(maps.Keys(h.now))
			switch k := p.rng.IntN(5); {
			case k == 0 && len(sent) > 0: // a sender that was not sure; also of what is gone
				again := sent[p.rng.IntN(len(sent))]
				return h.do(func() error { return send(p, r, again) })
			case k == 1 && len(waiting) > 0:
				one := waiting[p.rng.IntN(len(waiting))]
				return h.do(func() error { return r.TryRemove(p.at("inbox/" + one)) }, cut(one))
			case k == 2 && len(waiting) > 0:
				return h.do(func() error {
					text, err := r.TryRead(p.at("inbox/next"))
					if err == nil && !strings.Contains(text, waiting[0]) {
						p.Errorf("next is %s, and not %s", text, waiting[0])
					}
					return err
				}, cut(waiting[0]))
			}
			err := h.do(func() error { return send(p, r, n) }, put(id(n), strconv.Itoa(n)))
			if err == nil {
				sent = append(sent, n)
			}
			return err
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			p.mail(r, "inbox", "", got)
			h.is(p, "inbox", got)
			if len(got) > 0 {
				daemon.Has(p.T, "head", r.Read(p.at("inbox/head")), slices.Min(slices.Collect(maps.Keys(got))))
			}
			daemon.Has(p.T, "status", r.Read(p.at("status")), fmt.Sprintf(`"inbox":%d,`, len(got)))
		}}
}

// deadLetters go to and fro between a small inbox and /deadletter.
func deadLetters() promise {
	var h history
	const room = 4
	at := func(place string) (ids []string) {
		for name := range h.now {
			if id, ok := strings.CutPrefix(name, place); ok {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	return promise{name: "DeadLettersKept", acts: 40, more: `"inbox":{"limit":4}`,
		act: func(p *promised, r *daemon.Tree, n int) error {
			inbox, dead := at("inbox/"), at("dead/")
			switch k := p.rng.IntN(6); {
			case k == 0 && len(inbox) > 0:
				return h.do(func() error { return r.TryRemove(p.at("inbox/" + inbox[0])) }, cut("inbox/"+inbox[0]))
			case k == 1 && len(dead) > 0:
				return h.do(func() error { return r.TryWrite(p.at("deadletter/ctl"), "discard "+dead[0]) }, cut("dead/"+dead[0]))
			case k == 2 && len(dead) > 0:
				return h.do(func() error { return r.TryRemove(p.at("deadletter/" + dead[0])) }, cut("dead/"+dead[0]))
			case k == 3 && len(dead) > 0 && len(inbox) < room:
				return h.do(func() error { return r.TryWrite(p.at("deadletter/ctl"), "replay "+dead[0]) }, move("dead/"+dead[0], "inbox/"+dead[0]))
			}
			place := "dead/"
			if len(inbox) < room {
				place = "inbox/"
			}
			name := fmt.Sprintf("m%06d", n)
			return h.do(func() error {
				return r.TryWrite(p.at("inbox/new"), fmt.Sprintf(`{"id":%q,"body":"%d"}`, name, n))
			}, put(place+name, strconv.Itoa(n)))
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			p.mail(r, "inbox", "inbox/", got)
			p.mail(r, "deadletter", "dead/", got)
			h.is(p, "inbox and deadletter", got)
		}}
}

// sentMessages are in both places or in none.
func sentMessages() promise {
	var h history
	const other = "Addressee"
	inbox := "agents/" + other + "/inbox/"
	return promise{name: "SentToOthers", acts: 40,
		begins: func(p *promised, r *daemon.Tree) { r.Agent(other, `{"inbox":{"limit":100000}}`) },
		act: func(p *promised, r *daemon.Tree, n int) error {
			id := fmt.Sprintf("m%06d", p.rng.IntN(n+1))
			if _, there := h.now["there/"+id]; there && p.rng.IntN(2) == 0 {
				return h.do(func() error { return r.TryRemove(inbox + id) }, cut("there/"+id))
			}
			id = fmt.Sprintf("m%06d", n)
			return h.do(func() error {
				return r.TryWrite(p.at("outbox/new"), fmt.Sprintf(`{"to":%q,"id":%q,"body":"%d"}`, other, id, n))
			}, func(w world) { w["sent/"+id], w["there/"+id] = "once", "once" })
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			for _, m := range daemon.Lines[struct{ ID string }](p.T, r.Tail(p.at("outbox/sent"))) {
				got["sent/"+m.ID] += "once"
			}
			for id := range strings.FieldsSeq(r.List(inbox)) {
				if strings.HasPrefix(id, "m") {
					got["there/"+id] += "once"
				}
			}
			h.is(p, "sent and received", got)
		}}
}

// come are agents that come and go: each is there whole, or not at all.
func come() promise {
	var h history
	return promise{name: "ComeAndGo", acts: 20,
		act: func(p *promised, r *daemon.Tree, n int) error {
			name := fmt.Sprint("guest", p.rng.IntN(4))
			switch h.now[name] {
			case "active":
				return h.do(func() error { return r.TryWrite("agents/"+name+"/ctl", "stop") }, put(name, "stopped"))
			case "stopped":
				return h.do(func() error { return r.TryRemove("agents/" + name) }, cut(name))
			}
			return h.do(func() error { return r.TryMkdir("agents", name) }, put(name, "active"))
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			for name := range strings.FieldsSeq(r.List("agents")) {
				if !strings.HasPrefix(name, "guest") {
					continue
				}
				var status struct{ State string }
				daemon.Parse(p.T, r.Read("agents/"+name+"/status"), &status)
				got[name] = status.State
				daemon.Equal(p.T, "the length of a signature", len(r.Ask("agents/"+name+"/identity/sign", "x")), 128)
			}
			h.is(p, "agents", got)
		}}
}

// tokensKept: they open what they are for until they are revoked, and then nothing.
func tokensKept() promise {
	var h history
	secrets := map[string]string{} // by id, also of those that are gone
	return promise{name: "TokensKept", acts: 20,
		act: func(p *promised, r *daemon.Tree, n int) error {
			live := slices.Sorted(maps.Keys(h.now))
			if len(live) > 0 && p.rng.IntN(2) == 0 {
				id := live[p.rng.IntN(len(live))]
				return h.do(func() error { return r.TryRemove("tokens/" + id) }, cut(id))
			}
			var secret string
			err := h.do(func() error {
				b, err := fsys.Converse(daemon.Within(p.T), r.Root, "ctl", []byte("token "+p.name))
				secret = strings.TrimSpace(string(b))
				return err
			}, put("nobody knows", "live"))
			if err == nil {
				sum := sha256.Sum256([]byte(secret))
				id := hex.EncodeToString(sum[:])[:16]
				move("nobody knows", id)(h.now)
				secrets[id] = secret
			}
			return err
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			for id := range strings.FieldsSeq(r.List("tokens")) {
				if !strings.Contains(r.Read("tokens/"+id), `"agent":"`+p.name+`"`) {
					continue
				}
				if secrets[id] == "" { // its answer was never heard
					r.Remove("tokens/" + id)
					id = "nobody knows"
				}
				got[id] = "live"
			}
			h.is(p, "tokens", got)
			delete(h.now, "nobody knows")
			for id, secret := range secrets {
				tr, err := daemon.Attach(p.T, "unix", p.d.Sock(), secret)
				if h.now[id] == "" {
					daemon.Refused(p.T, "a token that was revoked", err, fsys.Permission)
					delete(secrets, id)
				} else if err != nil {
					p.Errorf("the token %s: %v", id, err)
				} else {
					daemon.Has(p.T, "status", tr.Read("status"), `"name":"`+p.name+`"`)
				}
			}
		}}
}

func secretNames() promise {
	var h history
	return promise{name: "SecretsKept", acts: 20,
		act: func(p *promised, r *daemon.Tree, n int) error {
			name := fmt.Sprint("s", p.rng.IntN(5))
			if h.now[name] == "" {
				return h.do(func() error { return r.TryMake(p.at("secrets"), name, fmt.Sprint("secret-", n)) }, put(name, "there"))
			}
			if p.rng.IntN(2) == 0 {
				return h.do(func() error { return r.TryWrite(p.at("secrets/"+name), fmt.Sprint("secret-", n)) })
			}
			return h.do(func() error { return r.TryRemove(p.at("secrets/" + name)) }, cut(name))
		},
		holds: func(p *promised, r *daemon.Tree) {
			got := world{}
			for name := range strings.FieldsSeq(r.List(p.at("secrets"))) {
				got[name] = "there"
			}
			h.is(p, "secrets", got)
		}}
}

// settingsKept are documents, and accounts with documents of their own.
func settingsKept() promise {
	var h history
	const accounts = "purse"
	limits := func(n int) string { return fmt.Sprintf(`{"total_microusd":%d}`, 1000+n) }
	return promise{name: "SettingsKept", acts: 20,
		act: func(p *promised, r *daemon.Tree, n int) error {
			account := fmt.Sprint(accounts, p.rng.IntN(3))
			_, there := h.now["accounts/"+account]
			switch k := p.rng.IntN(6); {
			case k == 0:
				text := fmt.Sprintf(`{"accept":["a%d"]}`, n)
				return h.do(func() error { return r.TryWrite(p.at("config"), text) }, put("config", text+"\n"))
			case k == 1:
				return h.do(func() error { return r.TryWrite(p.at("budget/limits"), limits(n)) }, put("limits", fmt.Sprint(1000+n)))
			case there && k == 2:
				return h.do(func() error { return r.TryRemove("accounts/" + account) }, cut("accounts/"+account))
			case there:
				return h.do(func() error { return r.TryWrite("accounts/"+account+"/limits", limits(n)) }, put("accounts/"+account, fmt.Sprint(1000+n)))
			}
			return h.do(func() error { return r.TryMkdir("accounts", account) }, put("accounts/"+account, "0"))
		},
		begins: func(p *promised, r *daemon.Tree) {
			r.Write(p.at("config"), "{}")
			h.now = world{"config": "{}\n", "limits": "0"}
		},
		holds: func(p *promised, r *daemon.Tree) {
			total := func(path string) string {
				var doc struct {
					Total int `json:"total_microusd"`
				}
				daemon.Parse(p.T, r.Read(path), &doc)
				return fmt.Sprint(doc.Total)
			}
			got := world{"config": r.Read(p.at("config")), "limits": total(p.at("budget/limits"))}
			for name := range strings.FieldsSeq(r.List("accounts")) {
				if strings.HasPrefix(name, accounts) {
					got["accounts/"+name] = total("accounts/" + name + "/limits")
				}
			}
			h.is(p, "settings", got)
		}}
}

// ownLines are in the log once, in order.
func ownLines() promise {
	return promise{name: "LinesLogged", acts: 40,
		act: func(p *promised, r *daemon.Tree, n int) error {
			return r.TryWrite(p.at("logs/write"), fmt.Sprintf("line%d", n))
		},
		holds: func(p *promised, r *daemon.Tree) {
			text := r.Tail(p.at("logs/trajectory"))
			list := p.numbers(strings.NewReplacer(`"`, " ", ",", " ").Replace(text), "line")
			p.each("logs/trajectory", list)
			daemon.Equal(p.T, "in order", slices.IsSorted(list), true)
		}}
}

// conversations answer every prompt once.
func conversations() promise {
	type prompt struct{ session, number, text string }
	var open []string
	var asked []prompt
	return promise{name: "PromptsAnswered", acts: 6,
		act: func(p *promised, r *daemon.Tree, n int) error {
			if len(open) == 0 || len(open) < 4 && p.rng.IntN(8) == 0 {
				b, err := fsys.Converse(daemon.Within(p.T), r.Root, p.at("sessions/new"), []byte("{}"))
				if err == nil {
					open = append(open, strings.TrimSpace(string(b)))
				}
				return err
			}
			to, text := open[p.rng.IntN(len(open))], fmt.Sprintf("word%d and more", n)
			b, err := fsys.Converse(daemon.Within(p.T), r.Root, p.at("sessions/"+to+"/prompt"), []byte(text))
			if err == nil {
				asked = append(asked, prompt{to, strings.TrimSpace(string(b)), text})
			}
			return err
		},
		holds: func(p *promised, r *daemon.Tree) {
			for _, s := range open {
				var numbers []int
				texts := map[int]string{}
				for _, a := range asked {
					if a.session == s {
						n, _ := strconv.Atoi(a.number)
						numbers, texts[n] = append(numbers, n), a.text
					}
				}
				finals := map[int]int{}
				for _, l := range r.Transcript(p.at("sessions/"+s+"/transcript"), numbers...) {
					if text := texts[l.Prompt]; text != "" && l.Role == "user" {
						daemon.Equal(p.T, "what was asked", l.Text, text)
					}
					if !l.Final() {
						continue
					}
					if finals[l.Prompt]++; finals[l.Prompt] > 1 {
						p.Errorf("session %s answers %d again: %+v", s, l.Prompt, l)
					}
					if text := texts[l.Prompt]; text != "" && (l.Outcome != "done" || strings.TrimSpace(l.Text) != text) {
						p.Errorf("session %s answers %q with %+v", s, text, l)
					}
				}
			}
		}}
}
