package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/services/agent"
)

// A view is the operator's tree as text, without what differs from one start
// to the next:
//
//   - A time after that of the archive is <later>, but one that is further away
//     than anybody will be.
//   - In a line with such a time, and of a tick that was cut off, how long something
//     took is <n>, and when it will end by itself is <later>.
//   - Lines of logs with such a time are sorted: what happens at the start
//     happens at once.
//   - What is true of a day only is <today>: what was spent in it, when it turns,
//     and what is left to the agent that has a limit for it.
//   - Of a ctl file there are the alarms, and not the help for its verbs.
//   - Files of what daemon and machine this is are left out (goldenOmits).
//
// A file is its path, kind and permissions, and below that its lines with a tab
// before each; one that is large is its size and SHA-256.
type view struct {
	*golden
	frozen string
	files  map[string]string
}

// goldenOmits are files that say more of the daemon or the machine than of what
// is stored, or what was taken in the last minutes.
var goldenOmits = regexp.MustCompile(`(^|/)(README|version|metrics|providers|taken|env\.json)$`)

// goldenStreams are read as far as they are, although no listing has them.
var goldenStreams = []string{"logs/trajectory", "budget/ledger", "outbox/sent"}

func (g *golden) view(frozen string) map[string]string {
	g.Helper()
	ctx := daemon.Within(g.T)
	root, err := g.r.Client.Attach(ctx, "", "?errors=full")
	if err != nil {
		g.Fatal(err)
	}
	v := &view{g, frozen, map[string]string{}}
	v.gather(root, "")
	for agent := range strings.FieldsSeq(g.r.List("agents")) {
		for _, name := range goldenStreams {
			v.add("agents/"+agent+"/"+name, "stream", g.r.Tail("agents/"+agent+"/"+name))
		}
	}
	for account := range strings.FieldsSeq(g.r.List("accounts")) {
		v.add("accounts/"+account+"/ledger", "stream", g.r.Tail("accounts/"+account+"/ledger"))
	}
	return v.files
}

func (v *view) gather(n fsys.Node, at string) {
	v.Helper()
	ctx := daemon.Within(v.T)
	info, err := n.Stat(ctx)
	if err != nil {
		v.Fatalf("%s: %v", at, err)
	}
	what := fmt.Sprintf("%s %04o", info.Kind, info.Perm.Perm())
	switch {
	case goldenOmits.MatchString(at):
	case info.Kind == fsys.Directory:
		list, err := fsys.List(ctx, n)
		if err != nil {
			v.Fatalf("%s: %v", at, err)
		}
		if at != "" {
			v.add(at+"/", what, "")
		}
		for _, e := range list {
			v.gather(e.Node, path.Join(at, e.Name))
		}
	case info.Kind == fsys.Message && path.Base(at) != "ctl", info.Perm&0o444 == 0:
		v.add(at, what, "")
	default:
		b, err := fsys.ReadFile(ctx, n, "")
		if err != nil {
			v.add(at, what, "error: "+err.Error()+"\n")
		} else {
			v.add(at, what, string(b))
		}
	}
}

func (v *view) add(at, what, content string) {
	if path.Base(at) == "ctl" {
		content = strings.Join(alarms.FindAllString(content, -1), "")
	}
	switch {
	case !utf8.ValidString(content) || strings.ContainsRune(content, 0) || len(content) > 100_000:
		content = fmt.Sprintf("%d bytes, %x\n", len(content), sha256.Sum256([]byte(content)))
	default:
		content = v.lasting(at, content)
	}
	text := what + "\n"
	for line := range strings.Lines(content) {
		text += "\t" + strings.TrimSuffix(line, "\n") + "\n"
	}
	v.files[at] = text
}

var (
	stamps  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	lengths = regexp.MustCompile(`("\w+_(ms|s)"|"(wall|cpu)\w*"):\d+(\.\d+)?`)
	alarms  = regexp.MustCompile(`(?m)^# alarm .*\n`)
	ends    = regexp.MustCompile(`"ends":"[^"]*"`)
	left    = regexp.MustCompile(`"left_microusd":\d+`)
	today   = regexp.MustCompile(`"day":\{[^}]*\}|"(spent_day_microusd|resets)":("[^"]*"|\d+)`)
	soon    = "2090"
)

// lasting leaves out what the next start has otherwise.
func (v *view) lasting(at, content string) string {
	var first, later []string
	for line := range strings.Lines(content) {
		line = today.ReplaceAllString(line, "<today>")
		if strings.HasPrefix(at, "agents/day/") {
			line = left.ReplaceAllString(line, "<today>")
		}
		is := strings.Contains(line, `"outcome":"interrupted"`)
		line = stamps.ReplaceAllStringFunc(line, func(s string) string {
			if s > v.frozen && s < soon {
				is = true
				return "<later>"
			}
			return s
		})
		if !is {
			first = append(first, line)
			continue
		}
		later = append(later, ends.ReplaceAllString(lengths.ReplaceAllString(line, "$1:<n>"), "<later>"))
	}
	sort.Strings(later)
	return strings.Join(append(first, later...), "")
}

// parts are the prefixes of all keys in the database: what has a digit, and what
// the world calls something, is N. What was taken from an inbox is left out, as
// it goes with time. Each key of an agent is that of one of its parts.
func (g *golden) parts() string {
	g.Helper()
	seen, agents := map[string]bool{}, map[string]bool{} // and not accounts
	keys := daemon.Stored(g.T, g.d, "")
	for _, key := range keys {
		if id, rest, _ := strings.Cut(strings.TrimPrefix(key, "data/"), "/"); strings.HasPrefix(rest, "status/") {
			agents[id] = true
		}
	}
	for _, key := range keys {
		words := strings.Split(key, "/")
		if words[0] == "data" && agents[words[1]] && !agent.HasPart(words[2]) {
			g.Errorf("the key %s is of no part of an agent", key)
		}
		for i, word := range words {
			kind := words[0] == "data" && i == 3 && words[2] != "secrets" // as in data/7/compute/exp
			if words[0] == "data" && i == 1 || strings.ContainsAny(word, "0123456789") || !kind && slices.Contains(goldenNames, word) {
				words[i] = "N"
			}
		}
		seen[strings.Join(words, "/")] = true
	}
	delete(seen, "data/N/inbox/t/N")
	return strings.Join(slices.Sorted(maps.Keys(seen)), "\n") + "\n"
}

// goldenNames are those of the world that have no digit.
var goldenNames = strings.Fields(`crew org team gone default support
	ann box cat clo day dock exp fay fil gate gil idle imp ina ned old pro sam tek tia tim tom web wes zed w
	cut paid submitted waits queued draft first asks
	from-ann from-gate given-up tried-again in-a-tick after-it one
	github bytes empty large learn nothing small seen plan log done draft.md review.md gone.md help README`)

// differences tells two views apart, path by path and line by line.
func differences(got, want map[string]string) string {
	var b strings.Builder
	paths := maps.Clone(want)
	maps.Copy(paths, got)
	for _, at := range slices.Sorted(maps.Keys(paths)) {
		is, had := got[at]
		was, has := want[at]
		switch {
		case had && has && is == was:
			continue
		case !had:
			fmt.Fprintf(&b, "- %s is not there any more: %s", at, was)
			continue
		case !has:
			fmt.Fprintf(&b, "+ %s is new: %s", at, is)
			continue
		}
		fmt.Fprintf(&b, "! %s\n", at)
		lack, more := lineCounts(was), lineCounts(is)
		for _, line := range slices.Sorted(maps.Keys(lack)) {
			if lack[line] > more[line] {
				fmt.Fprintf(&b, "  - %s\n", strings.TrimSpace(line))
			}
		}
		for _, line := range slices.Sorted(maps.Keys(more)) {
			if more[line] > lack[line] {
				fmt.Fprintf(&b, "  + %s\n", strings.TrimSpace(line))
			}
		}
		if maps.Equal(lack, more) {
			b.WriteString("    the same lines in another order\n")
		}
	}
	return b.String()
}

func lineCounts(text string) map[string]int {
	n := map[string]int{}
	for line := range strings.Lines(text) {
		n[line]++
	}
	return n
}

// written is a view as a file has it, and parsed reads that.
func written(files map[string]string) string {
	var b strings.Builder
	for _, at := range slices.Sorted(maps.Keys(files)) {
		b.WriteString(at + ": " + files[at])
	}
	return b.String()
}

func parsed(text string) map[string]string {
	files, at := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "\t") {
			files[at] += line
			continue
		}
		what := ""
		at, what, _ = strings.Cut(line, ": ")
		files[at] = what
	}
	return files
}
