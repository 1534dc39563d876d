//go:build unix

package containers_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/fake"
	"agent9/services/containers"
	"agent9/store"
)

// repository makes one with two commits, on main and on side, and a hook that
// must not run, and returns where it is and the first commit.
func repository(t *testing.T) (dir, first string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	dir = filepath.Join(t.TempDir(), "project.git")
	script := `git init -q -b main "$1" && cd "$1" && mkdir sub && echo one >sub/file && git add . && git commit -qm one && git rev-parse HEAD
echo two >sub/file && git commit -qam two && git checkout -qb side && echo side >sub/file && git commit -qam side && git checkout -q main`
	cmd := exec.Command("sh", "-c", script, "sh", dir)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir, strings.Fields(string(out))[0]
}

func TestClone(t *testing.T) {
	dir, first := repository(t)
	y := newYard(t, fake.Options{})
	for _, c := range []struct{ repo, script, want string }{
		{`"url":"file://%s"`, "cat sub/file; git rev-list --count HEAD; git status --short", "two\n1\n"},
		{`"url":"file://%s","depth":0`, "git rev-list --count HEAD", "2\n"},
		{`"url":"file://%s","ref":"side","subdir":"sub"`, "cat file; git branch --show-current", "side\nside\n"},
		{`"url":"file://%s","ref":"` + first + `","subdir":"sub"`, "cat file", "one\n"},
		{`"url":"%s"`, "cd sub; echo x >file; git commit -qam mine; git log -1 --format='%%an %%ae'", "alice (agent) alice@example.org\n"},
	} {
		y.policy(`{"git_suffix":" (agent)","git_domain":"example.org"}`)
		n := y.ask(fmt.Sprintf(`{"repo":{`+c.repo+`},"commands":["`+c.script+`"]}`, dir))
		y.ended(n, containers.Done, "")
		y.eq(y.read("sessions/"+n+"/stdout"), c.want)
	}
	n := y.ask(`{"repo":{"url":"file://` + dir + `","ref":"nothing"},"commands":["true"]}`)
	y.ended(n, containers.Failed, "provider: the clone failed: git clone exited with 128")
	n = y.ask(`{"repo":{"url":"https://example.invalid/x"}}`)
	y.ended(n, containers.Failed, "the session has no network")
}

func TestTheTokenStaysSecret(t *testing.T) {
	repository(t)
	const token = "s3cr3t-t0ken"
	asked := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		http.Error(w, "you said "+r.Header.Get("Authorization")+" "+token, http.StatusForbidden)
	}))
	defer server.Close()
	y := newYard(t, fake.Options{})
	y.config.GitSecret = func(_ context.Context, name, url string) ([]byte, error) {
		if name != "forge" {
			return nil, fsys.E(fsys.NotExist, "there is no secret "+name)
		}
		return []byte(token + "\n"), nil
	}
	y.open()
	y.policy(`{"network":true}`)
	n := y.ask(`{"repo":{"url":"` + server.URL + `/r.git","auth":{"secret":"forge"}},"limits":{"network":true},"keep":true,"commands":["env"]}`)
	y.ended(n, containers.Failed, "the clone failed")
	y.eq(<-asked, "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token)))
	for p, err := range store.All(t.Context(), y.db, "") {
		y.must(err)
		if strings.Contains(string(p.Value), token) || strings.Contains(string(p.Value), base64.StdEncoding.EncodeToString([]byte(token))) {
			t.Errorf("the token is at %s: %s", p.Key, p.Value)
		}
	}
	err := filepath.WalkDir(y.fake.Dir(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, _ := os.ReadFile(path); strings.Contains(string(b), token) {
				t.Errorf("the token is in %s", path)
			}
		}
		return err
	})
	y.must(err)
	n = y.ask(`{"repo":{"url":"https://example.org/r.git","auth":{"secret":"nothing"}},"limits":{"network":true}}`)
	y.ended(n, containers.Failed, "not-found: repo: the secret nothing: there is no secret nothing")
}

// Git has a secret in an image that the operator knows, in a sandbox of its own,
// of which nothing is left.
func TestTheImageForSecrets(t *testing.T) {
	repository(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	made := make(chan string, 16)
	y := newYard(t, fake.Options{Remote: []string{"anybody/git", "known/git", "forge/git"}, Creating: func(_ context.Context, s sandboxes.Spec) error {
		made <- s.Name + " " + s.Image
		return nil
	}})
	y.config.GitSecret = func(context.Context, string, string) ([]byte, error) { return []byte("s3cr3t-t0ken"), nil }
	y.open()
	request := func(image string) string {
		return `{"image":"` + image + `","repo":{"url":"` + server.URL + `/r.git","auth":{"secret":"forge"}},"limits":{"network":true}}`
	}
	for _, c := range []struct{ policy, image, want string }{
		{`{"network":true}`, "", "fake"},
		{`{"network":true,"allow_images":["*","known/git"]}`, "known/git", "known/git"},
		{`{"network":true,"allow_images":["anybody/*"],"git_image":"forge/git"}`, "anybody/git", "forge/git"},
	} {
		y.policy(c.policy)
		n := y.ask(request(c.image))
		y.ended(n, containers.Failed, "the clone failed: git clone exited with 128")
		<-made
		y.eq(<-made, "a1."+n+".clone "+c.want)
	}
	y.policy(`{"network":true,"allow_images":["anybody/*"]}`)
	y.refused("new", request("anybody/git"), fsys.Permission, "only a glob of allow_images allows the image anybody/git")
	left, err := filepath.Glob(filepath.Join(y.fake.Dir(), "s", "*"))
	y.must(err)
	y.eq(fmt.Sprint(len(left)), "3") // of the sessions
	y.refused("new", strings.Replace(request(""), "/r.git", "/r.git?x", 1), fsys.Invalid, "so that everybody who reads it sees the same host")
}
