//go:build linux

package http

import (
	"agent9/conformance/daemon"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A stage is a daemon for people with a browser: alice's model answers as the
// test lets it.
type stage struct {
	*daemon.Daemon
	url, token string // the operator's token
	operator   *http.Client
	t          *testing.T
	lines      *os.File // what lets the model go on
}

// modelScript repeats the question, and waits for a line before the rest.
const modelScript = `question=$(cat); printf 'You asked: '; read more <%[1]s; printf '%%s' "$question"; read more <%[1]s; printf '\n%%s\n' "$more"`

func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "lines")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lines.Close() })
	d, url, operator := daemon.StartWeb(t, append(args, "--compute", "stage=exec:"+fmt.Sprintf(modelScript, fifo))...)
	s := &stage{d, url, "", operator, t, lines}
	// The daemon keeps its address after a restart.
	for i, arg := range d.Args {
		if arg == "127.0.0.1:0" {
			d.Args[i] = strings.TrimPrefix(url, "http://")
		}
	}
	daemon.Create(t, operator, "alice", "bob")
	s.put("compute/policy", `{"default_provider":"stage"}`)
	s.token = daemon.TokenFor(t, operator, "*")
	return s
}

func (s *stage) put(file, text string) {
	s.t.Helper()
	if status, reply := daemon.Ask(s.t, s.operator, "", "PUT", "http://localhost/agents/alice/"+file, text); status >= 300 {
		s.t.Fatalf("%s: %d %s", file, status, reply)
	}
}

func (s *stage) post(file, text string) string {
	s.t.Helper()
	status, reply := daemon.Ask(s.t, s.operator, "", "POST", "http://localhost/agents/alice/"+file, text)
	if status >= 300 {
		s.t.Fatalf("%s: %d %s", file, status, reply)
	}
	return strings.TrimSpace(reply)
}

func (s *stage) get(file string) string {
	s.t.Helper()
	status, text := daemon.Ask(s.t, s.operator, "", "GET", "http://localhost/agents/alice/"+file, "")
	if status != 200 {
		s.t.Fatalf("%s: %d %s", file, status, text)
	}
	return text
}

// say lets the model go on.
func (s *stage) say(line string) {
	s.t.Helper()
	if _, err := s.lines.WriteString(line + "\n"); err != nil {
		s.t.Fatal(err)
	}
}

// The page in a real browser, each time with a daemon and a profile of its own.
func TestPage(t *testing.T) {
	browser := newBrowser(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"person":      pagePerson,
		"escapes":     pageEscapes,
		"keyboard":    pageKeyboard,
		"phone":       pagePhone,
		"reconnects":  pageReconnects,
		"revoked":     pageRevoked,
		"stopped":     pageStopped,
		"otherorigin": pageOtherOrigin,
		"weight":      pageWeight,
	} {
		t.Run(name, func(t *testing.T) { test(t, browser) })
	}
}

// What a person does with the page, with a mouse.
func pagePerson(t *testing.T, browser context.Context) {
	daemon.HelperFor(t)
	s := newStage(t, "--unsafe-host-containers")
	p := newTab(t, browser, 1280, 800)
	p.open(s.url)
	p.keys("a9_wrong", kb.Enter)
	p.shows("[role=alert]", "not valid")
	if wrong := p.noted(); len(wrong) != 1 || !strings.Contains(wrong[0], "401") {
		t.Errorf("a wrong token: %q", wrong)
	}
	p.shoot("login")
	p.keys(s.token, kb.Enter)
	p.shows("tbody a", "bob")
	p.shows("td.state", "active")
	if at := eval[string](p, "location.href"); strings.Contains(at, "a9_") {
		t.Errorf("the token is in the address: %s", at)
	}

	p.click(`a[href="#/agents/alice"]`)
	p.shows(".state", "active")
	p.click(`a[href="#/agents/alice/talk"]`)
	p.until(`document.activeElement.id === "prompt"`)
	p.keys("How are you?", kb.Enter)
	p.shows("article.user", "How are you?")
	p.until(`document.querySelector("article.agent[aria-busy] .text").textContent === "You asked: "`)
	s.say("")
	p.until(`document.querySelector("article.agent[aria-busy] .text").textContent === "You asked: How are you?"`)
	s.say("Fine, thank you.")
	p.until(`document.querySelector("article.agent:not([aria-busy]) .text").textContent === "You asked: How are you?\nFine, thank you.\n"`)
	p.shows("[aria-current]", "How are you?")
	p.shoot("talk")
	p.size(375, 740)
	p.shoot("phone-talk")
	p.size(1280, 800)

	s.put("budget/limits", `{"per_day_microusd":1000000,"approval_threshold_microusd":1000}`)
	job := s.post("compute/new", `{"provider":"stage","messages":[{"role":"user","content":"dear"}],"max_cost_microusd":250000}`)
	p.goTo("#/agents/alice")
	p.shows("article.card", "up to $0.25")
	p.shoot("overview")
	p.click("button.yes")
	p.shows(".hint", "Nothing waits")
	s.say("")
	s.say("sir")
	daemon.Has(t, "the job", s.get("compute/jobs/"+job+"/result"), `sir`)
	s.post("compute/new", `{"provider":"echo","messages":[{"role":"user","content":"dearer"}],"max_cost_microusd":250000}`)
	p.goTo("#/agents/alice/approvals")
	p.click("article.card input")
	p.keys("too dear")
	p.click("button.no")
	p.shows(".hint", "Nothing waits")
	daemon.Has(t, "the trajectory", s.get("logs/trajectory?wait=0s"), "approval.denied", "too dear")

	s.put("budget/limits", `{"per_day_microusd":1000000}`)
	s.put("containers/policy", `{"price_per_session_microusd":120000}`)
	p.goTo("#/agents/alice/sandboxes")
	p.click("#command")
	p.keys("echo from the sandbox; echo more", kb.Enter)
	p.shows("pre.tail", "from the sandbox\nmore\n")
	p.shows("[role=status]", "exit 0")
	p.shoot("sandboxes")

	p.goTo("#/agents/alice/budget")
	p.shows("tbody td", "settle")
	p.shows(".window", "$0.12 spent of $1.00")
	p.shows("figcaption", "$0.12 in 24 hours")
	if wide, bars := eval[float64](p, `document.querySelector(".spent").getBoundingClientRect().width / document.querySelector(".bar").getBoundingClientRect().width`), eval[int](p, `document.querySelectorAll(".hours rect").length`); wide < .11 || wide > .13 || bars != 24 {
		t.Errorf("the bar is %.2f full, and the day has %d hours", wide, bars)
	}
	p.shows("p.left", "Left $0.88")
	p.shoot("budget")
	s.put("budget/limits", `{"per_day_microusd":20000}`)
	p.shows("p.left.wrong", "Left −$0.10: overdrawn")
	s.put("budget/limits", `{"per_day_microusd":1000000}`)

	p.goTo("#/files/agents/alice/goals")
	p.click(`[aria-label="New name"]`)
	p.keys("tea", kb.Enter)
	p.click("textarea.edit")
	p.keys("make tea")
	p.click("main .tag button")
	p.shows("#said", "tea is written")
	daemon.Equal(t, "goals/tea", s.get("goals/tea"), "make tea")
	p.shoot("file")
	p.goTo("#/files/agents/alice/inbox/new")
	p.click("#message")
	p.keys("a letter")
	p.click("main form button")
	p.until(`document.querySelector("[role=log]").textContent.length > 3`)
	daemon.Has(t, "status", s.get("status"), `"inbox":1`)
	p.goTo("#/files/agents/alice/inbox/next")
	p.click("main .tag button")
	p.shows("[role=log]", "a letter")
	p.goTo("#/files/agents/alice/logs/trajectory")
	p.shows("pre.tail", "approval.denied")
	s.post("logs/write", "a line of today")
	p.shows("pre.tail", "a line of today")
	p.goTo("#/files/agents/alice")
	p.shows("th a", "goals/")
	p.shoot("files")
	p.goTo("#/agents/alice/log")
	p.shows("ol.log li", "a line of today")
	p.shoot("log")
	p.goTo("#/agents")
	p.shows("td", "$0.00")
	p.shoot("agents")
	p.dark()
	p.goTo("#/agents/alice")
	p.shows("ol.log li", "a line of today")
	p.shoot("dark")
	p.clean()
}

// What an agent, a model or a program wrote is shown as it is, and never acts.
func pageEscapes(t *testing.T, browser context.Context) {
	s := newStage(t)
	p := newTab(t, browser, 1280, 800)
	const canary = `<img src=x onerror="window.canary=1"><script>window.canary=1</script><svg onload="window.canary=1"><a href="javascript:window.canary=1">`
	name := url.PathEscape(`<img src=x onerror="window.canary=1">`)
	s.put("goals/"+name, canary)
	s.put("goals/plain", canary)
	s.post("inbox/new", canary)
	s.post("logs/write", canary)
	s.post("sessions/new", `{"title":"<img src=x onerror='window.canary=1'>"}`)
	job := s.post("compute/new", `{"provider":"echo","messages":[{"role":"user","content":`+strconv.Quote(canary)+`}],"max_cost_microusd":1}`)
	s.get("compute/jobs/" + job + "/result")
	s.post("sessions/1/prompt", canary)
	s.say("")
	s.say("")

	p.logIn(s.url, s.token)
	for _, view := range []struct{ hash, selector string }{
		{"#/agents/alice/talk/1", "article.agent:not([aria-busy]) .text"},
		{"#/agents/alice/talk/1", "article.user .text"},
		{"#/agents/alice/log", "ol.log li"},
		{"#/agents/alice/talk", "ul.list a"},
		{"#/agents/alice", "ol.log li"},
		{"#/files/agents/alice/goals", "th a"},
		{"#/files/agents/alice/goals/" + name, ".crumbs"},
		{"#/files/agents/alice/compute/jobs/" + job + "/output", "pre"},
		{"#/files/agents/alice/compute/jobs/" + job + "/request", "pre"},
	} {
		p.goTo(view.hash)
		p.shows(view.selector, "<img src=x onerror=")
	}
	p.goTo("#/files/agents/alice/goals/plain")
	p.until(`document.querySelector("textarea.edit").value.includes("<svg onload")`)
	p.goTo("#/agents/" + name + "/" + name)
	p.shows(".wrong", "There is no agent called <img src=x onerror=")
	p.goTo("#/files/agents/alice/goals/none")
	p.shows(".wrong", "/agents/alice/goals/none: there is no such file")
	p.goTo("#/nowhere/at/all")
	p.until(`document.title.startsWith("Agents")`)
	p.settles()
	if n := eval[int](p, `document.querySelectorAll("main img, main script, main [onload], main [onerror], a[href^='javascript']").length`); n != 0 {
		t.Errorf("%d elements were made of text", n)
	}
	if eval[bool](p, `"canary" in window`) {
		t.Error("a text acted")
	}
	for _, wrong := range p.noted() {
		if !strings.Contains(wrong, "404") { // of the agent that there is not
			t.Error(wrong)
		}
	}
	// What a mistake in the page would let in, its policy does not.
	if eval[bool](p, `(() => { try { document.querySelector("main").innerHTML = "<img src=x onerror='window.canary=1'>" } catch { return true } return false })()`) == false {
		t.Error("markup can be made of a string")
	}
	if !eval[bool](p, `(() => { try { document.createElement("img").setAttribute("onerror", "window.canary=1") } catch { return true } return false })()`) ||
		!eval[bool](p, `(() => { try { document.createElement("script").text = "window.canary=1" } catch { return true } return false })()`) {
		t.Error("a script can be made of a string")
	}
	if eval[bool](p, `fetch("http://localhost:1/").then(() => true, () => false)`) {
		t.Error("another server was reached")
	}
	if !slices.ContainsFunc(p.noted(), func(wrong string) bool { return strings.Contains(wrong, "Content Security Policy") }) {
		t.Error("the policy did not say so")
	}
}

// From the login to an answer and an approval without a mouse.
func pageKeyboard(t *testing.T, browser context.Context) {
	s := newStage(t)
	p := newTab(t, browser, 1280, 800)
	s.put("budget/limits", `{"per_day_microusd":1000000,"approval_threshold_microusd":1000}`)
	job := s.post("compute/new", `{"provider":"echo","messages":[{"role":"user","content":"dear"}],"max_cost_microusd":250000}`)
	p.logIn(s.url, s.token)
	p.shows("tbody a", "alice")
	// reach goes on with Tab until the focus is where it should be. On its way
	// everything must be visible, have a name and a visible focus.
	reach := func(where string) {
		t.Helper()
		for range 80 {
			p.keys(kb.Tab)
			if wrong := eval[string](p, `(() => {
				const e = document.activeElement;
				if (e === document.body) return "";
				const s = getComputedStyle(e), r = e.getBoundingClientRect();
				const name = e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent;
				if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return "no visible focus: " + e.outerHTML;
				if (r.width < 1 || r.right < 1) return "not visible: " + e.outerHTML;
				return name.trim() ? "" : "no name: " + e.outerHTML;
			})()`); wrong != "" {
				t.Error(wrong)
			}
			if eval[bool](p, fmt.Sprintf(`document.activeElement.matches(%q)`, where)) {
				return
			}
		}
		t.Fatalf("Tab does not lead to %s", where)
	}
	p.run(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	reach("#skip")
	p.keys(kb.Enter)
	p.until(`document.activeElement.id === "main"`)
	reach(`a[href="#/agents/alice"]`)
	p.keys(kb.Enter)
	p.shows("article.card", "up to $0.25")
	p.until(`document.activeElement.id === "main"`)
	reach("button.yes")
	p.keys(kb.Enter)
	p.shows(".hint", "Nothing waits")
	daemon.Has(t, "the job", s.get("compute/jobs/"+job+"/result"), `"content":"dear"`)
	p.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("main").focus()`))
	for range 80 { // backwards, out of the content
		p.shiftTab()
		if eval[bool](p, `document.activeElement.matches('a[href="#/agents/alice/talk"]')`) {
			break
		}
	}
	p.keys(kb.Enter)
	p.until(`document.activeElement.id === "prompt"`)
	p.keys("By hand", kb.Enter)
	s.say("")
	s.say("and foot")
	p.until(`document.querySelector("article.agent:not([aria-busy]) .text").textContent === "You asked: By hand\nand foot\n"`)
	p.until(`document.activeElement.id === "prompt"`)
	if live := eval[string](p, `document.querySelector("article.agent").closest("[aria-live]").getAttribute("aria-live")`); live != "polite" {
		t.Errorf("the answer is announced %q", live)
	}
	p.clean()
}

// Nothing is wider than a phone, and what is to be touched is not too small.
func pagePhone(t *testing.T, browser context.Context) {
	s := newStage(t)
	p := newTab(t, browser, 375, 740)
	s.put("budget/limits", `{"per_day_microusd":1000000,"approval_threshold_microusd":1000}`)
	s.put("goals/"+strings.Repeat("long-name", 20), strings.Repeat("x", 400))
	s.post("compute/new", `{"provider":"echo","messages":[{"role":"user","content":"dear"}],"max_cost_microusd":250000}`)
	s.post("sessions/new", `{"title":"`+strings.Repeat("title", 40)+`"}`)
	s.post("sessions/1/prompt", strings.Repeat("word", 100)+" How do I get to the station?")
	s.say("")
	s.say(strings.Repeat("left", 100) + " and then right.")
	p.open(s.url)
	narrow := func(view string) {
		t.Helper()
		if width := eval[int](p, "document.documentElement.scrollWidth"); width > 375 {
			t.Errorf("%s is %d pixels wide", view, width)
		}
		if small := eval[string](p, `[...document.querySelectorAll("button, input, textarea, .tabs a")].filter((e) => e.offsetParent && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML).join(" ")`); small != "" {
			t.Errorf("%s: too small to be touched: %s", view, small)
		}
	}
	narrow("login")
	p.keys(s.token, kb.Enter)
	p.shows("tbody a", "bob")
	narrow("agents")
	for _, view := range []struct{ hash, selector, text string }{
		{"#/agents/alice", "article.card", "up to"},
		{"#/agents/alice/talk/1", "article.agent:not([aria-busy])", "and then right."},
		{"#/agents/alice/log", "ol.log li", "sessions.done"},
		{"#/agents/alice/budget", "tbody td", "hold"},
		{"#/agents/alice/approvals", "article.card", "up to"},
		{"#/agents/alice/sandboxes", "h2", "Sandboxes"},
		{"#/files/agents/alice", "th a", "goals/"},
		{"#/files/agents/alice/goals", "th a", "long-name"},
		{"#/files/agents/alice/logs/trajectory", "pre", "sessions.done"},
		{"#/files/agents/alice/ctl", "label", "Write"},
		{"#/files/agents/alice/status", "pre", "alice"},
	} {
		p.goTo(view.hash)
		p.shows(view.selector, view.text)
		p.settles()
		narrow(view.hash)
		if view.hash == "#/agents/alice" {
			p.shoot("phone-overview")
		}
	}
	p.clean()
}

// After a restart of the daemon the answer goes on where it was, and the log
// has every event once.
func pageReconnects(t *testing.T, browser context.Context) {
	s := newStage(t)
	p := newTab(t, browser, 1280, 800)
	p.logIn(s.url, s.token)
	p.goTo("#/agents/alice/log")
	for i := range 3 {
		s.post("logs/write", fmt.Sprintf("line %d.", i))
	}
	p.shows("ol.log li", "line 2.")
	s.Kill()
	p.shows("#sign", "reconnecting")
	s.Start()
	s.post("logs/write", "line 3.")
	p.shows("ol.log li", "line 3.")
	p.until(`document.getElementById("sign").textContent === ""`)
	lines := eval[string](p, `[...document.querySelectorAll("ol.log li")].map((e) => e.textContent.match(/text=(line \d\.)/)?.[1]).filter(Boolean).join(" ")`)
	daemon.Equal(t, "the log", lines, "line 0. line 1. line 2. line 3.")

	p.goTo("#/files/agents/alice/logs/trajectory")
	p.shows("pre.tail", "line 3.")
	s.Signal(syscall.SIGTERM)
	s.Ends(daemon.Limit)
	p.shows("#sign", "reconnecting")
	s.Start()
	s.post("logs/write", "line 4.")
	p.shows("pre.tail", "line 4.")
	if shown, is := eval[string](p, `document.querySelector("pre.tail").textContent`), s.get("logs/trajectory?wait=0s"); !strings.HasPrefix(is, shown) || !strings.Contains(shown, "line 4.") {
		t.Errorf("what is shown is not what there is:\n%s\n%s", shown, is)
	}

	p.goTo("#/agents/alice/talk")
	p.until(`document.activeElement.id === "prompt"`)
	p.keys("Still there?", kb.Enter)
	p.shows("article.agent .text", "You asked: ")
	s.Signal(syscall.SIGTERM) // and not a kill, after which the model would wait on for its lines
	s.Ends(daemon.Limit)
	p.shows("#sign", "reconnecting")
	s.Start()
	s.say("")
	s.say("Yes.")
	p.until(`[...document.querySelectorAll("article.agent:not([aria-busy]) .text")].some((e) => e.textContent === "You asked: Still there?\nYes.\n")`)
	if eval[int](p, `document.querySelectorAll("article.user").length`) != 1 {
		t.Error("the prompt is there more than once")
	}
	for _, wrong := range p.noted() { // that nobody listens, or is about to end, is all that may be wrong
		if !strings.Contains(wrong, "status of 502") && !strings.Contains(wrong, "ERR_CONNECTION_REFUSED") && !strings.Contains(wrong, "WebSocket connection to") && !strings.Contains(wrong, "ERR_CONNECTION_RESET") {
			t.Error(wrong)
		}
	}
}

// What is said to a stopped agent begins nothing, and the page says why.
func pageStopped(t *testing.T, browser context.Context) {
	s := newStage(t)
	s.post("ctl", "stop")
	p := newTab(t, browser, 1280, 800)
	p.logIn(s.url, s.token)
	p.goTo("#/agents/alice/talk")
	p.shows("form .wrong:not([hidden])", "alice is stopped")
	p.until(`document.activeElement.id === "prompt"`)
	p.keys("Are you there?", kb.Enter)
	p.shows("#said", "the agent is stopped")
	p.shoot("stopped")
	if status, list := daemon.Ask(t, s.operator, "", "GET", "http://localhost/agents/alice/sessions", ""); status != 200 || strings.Contains(list, "directory") {
		t.Errorf("a session was begun: %d %s", status, list)
	}
	p.click("form .wrong button")
	p.until(`document.querySelector("form .wrong").hidden`)
	p.click("#prompt")
	p.keys(kb.Enter)
	p.shows("article.user", "Are you there?")
	s.say("")
	s.say("Yes.")
	p.shows("article.agent:not([aria-busy])", "Yes.")
}

// A token that is revoked ends what is shown.
func pageRevoked(t *testing.T, browser context.Context) {
	s := newStage(t)
	p := newTab(t, browser, 1280, 800)
	p.logIn(s.url, daemon.TokenFor(t, s.operator, "alice"))
	p.shows(".state", "active")
	if eval[bool](p, `Boolean(document.querySelector("article.card button, form.inline input"))`) {
		t.Error("an agent may decide or create")
	}
	_, list := daemon.Ask(t, s.operator, "", "GET", "http://localhost/tokens/", "")
	for _, id := range regexp.MustCompile(`"name":"(\w+)"`).FindAllStringSubmatch(list, -1) {
		daemon.Ask(t, s.operator, "", "DELETE", "http://localhost/tokens/"+id[1], "")
	}
	p.shows("[role=alert]", "revoked")
	if eval[int](p, "sessionStorage.length") != 0 {
		t.Error("the token is kept")
	}
}

// A page of another origin can neither send what acts, nor read, nor show the
// page in a frame, while somebody is logged in beside it.
func pageOtherOrigin(t *testing.T, browser context.Context) {
	s := newStage(t)
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><iframe id=frame src="%[1]s/"></iframe><iframe name=sink></iframe>
			<form id=form method=post enctype=text/plain target=sink action="%[1]s/agents/alice/ctl"><input name="stop
" value=x></form>`, s.url)
	}))
	defer hostile.Close()
	p := newTab(t, browser, 1280, 800)
	p.logIn(s.url, s.token)
	p.shows("tbody a", "alice")
	// The same browser and the same storage, at the other origin, and back.
	attack := &tab{t: t, ctx: p.ctx}
	p.run(chromedp.Navigate(hostile.URL))
	tried := eval[[]string](attack, `(async () => {
		const at = "`+s.url+`", results = [];
		const attempt = async (name, f) => results.push(name + ": " + await f().then((r) => r, (e) => "failed"));
		await attempt("post", () => fetch(at + "/agents/alice/ctl", {method: "POST", body: "stop\n", credentials: "include"}).then((r) => "read " + r.status));
		await attempt("post without an answer", () => fetch(at + "/agents/alice/ctl", {method: "POST", body: "stop\n", mode: "no-cors", credentials: "include"}).then((r) => r.type + r.status));
		await attempt("get", () => fetch(at + "/agents/alice/status", {credentials: "include"}).then((r) => "read " + r.status));
		await attempt("page", () => fetch(at + "/", {headers: {Accept: "text/html"}}).then((r) => "read " + r.status));
		await attempt("put", () => fetch(at + "/agents/alice/goals/x", {method: "PUT", body: "x", credentials: "include"}).then((r) => "read " + r.status));
		await attempt("socket", () => new Promise((done, fail) => { const w = new WebSocket(at.replace("http", "ws") + "/", ["agent9"]); w.onopen = () => done("open"); w.onerror = fail }));
		await attempt("script", () => new Promise((done, fail) => { const e = document.createElement("script"); e.src = at + "/page/main.js"; e.onload = () => done("loaded"); e.onerror = fail; document.head.append(e) }));
		await attempt("form", () => new Promise((done) => { document.querySelector("[name=sink]").onload = () => done("sent"); document.getElementById("form").submit() }));
		return results;
	})()`)
	daemon.Equal(t, "what another origin can do", strings.Join(tried, ", "),
		"post: failed, post without an answer: opaque0, get: failed, page: failed, put: failed, socket: failed, script: failed, form: sent")
	if wrong := strings.Join(p.noted(), "\n"); !strings.Contains(wrong, "frame-ancestors") && !strings.Contains(wrong, "X-Frame-Options") {
		t.Errorf("the page can be framed:\n%s", wrong)
	}
	daemon.Has(t, "status", s.get("status"), `"state":"active"`)
	if text := s.get("logs/trajectory?wait=0s"); strings.Contains(text, "agent.stopped") || strings.Contains(text, `"stop`) {
		t.Errorf("something acted:\n%s", text)
	}
	if status, _ := daemon.Ask(t, s.operator, "", "GET", "http://localhost/agents/alice/goals/x", ""); status != 404 {
		t.Error("something was written")
	}
}

// heaviest is how many bytes the whole page may have.
const heaviest = 60 << 10

// What the page weighs, and how long it takes until one can type.
func pageWeight(t *testing.T, browser context.Context) {
	s := newStage(t)
	p := newTab(t, browser, 1280, 800)
	p.open(s.url)
	measured := eval[struct{ Bytes, Sent, Requests, Ready float64 }](p, `(() => {
		const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
		const sum = (field) => all.reduce((n, e) => n + e[field], 0);
		return {Bytes: sum("decodedBodySize"), Sent: sum("transferSize"), Requests: all.length, Ready: performance.getEntriesByName("ready")[0].startTime};
	})()`)
	t.Logf("%.0f bytes, %.0f sent in %.0f requests, ready after %.0f ms", measured.Bytes, measured.Sent, measured.Requests, measured.Ready)
	if measured.Bytes > heaviest {
		t.Errorf("the page has %.0f bytes, which is more than %d", measured.Bytes, heaviest)
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 401 {
			t.Errorf("Accept: %q: %d", accept, res.StatusCode)
		}
	}
}
