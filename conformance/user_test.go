package conformance_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUser does what the manual tells a new user of /compute to do, with the
// manual's own scripts, on a mount.
func TestUser(t *testing.T) {
	need(t, "the manual's scripts use it", "bash", "jq")
	u := newUser(t)
	t.Run("answer the inbox until the budget is gone", u.answersItsInbox)
	t.Run("a request from OpenAI's documentation", u.sendsARequestAsItIs)
	t.Run("embeddings of every file in a folder", u.embedsAFolder)
	t.Run("speech is bytes", u.speaks)
	t.Run("a job that needs approval", u.asksForApproval)
	t.Run("two scripts race on one key", u.races)
}

// A user has a daemon with a server that bills: each answer costs 100 µ$.
type user struct {
	root     string // the mount
	examples string
	calls    atomic.Int64
}

func newUser(t *testing.T) *user {
	u := &user{}
	examples, err := filepath.Abs("../docs/examples")
	require.NoError(t, err)
	u.examples = examples
	server := httptest.NewServer(http.HandlerFunc(u.serveModel))
	t.Cleanup(server.Close)

	u.root = mounted(t, buildCommands(t), []string{"MODEL_API_KEY=secret"}, "--compute", "model=openai:"+server.URL+"/v1")
	return u
}

// mounted starts the daemon in bin, with args, and returns where its tree is
// mounted.
func mounted(t *testing.T, bin string, env []string, args ...string) (root string) {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("no FUSE: %v", err)
	} else {
		f.Close()
	}
	dir, err := os.MkdirTemp("", "a9")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	root = dir + "/m"
	require.NoError(t, os.Mkdir(root, 0o700))
	cmd := exec.Command(bin+"/agentd", append([]string{"--data", dir + "/data", "--listen", "unix:" + dir + "/sock", "--mount", root}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	mounted, drained := make(chan struct{}), make(chan struct{})
	var log lockedBuffer
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if strings.HasPrefix(lines.Text(), "mounted on ") {
				close(mounted)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		<-drained
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the daemon ended with %v and said:\n%s", err, log.String())
		}
		_ = unix.Unmount(root, unix.MNT_DETACH)
	})
	select {
	case <-mounted:
	case <-drained:
		t.Fatalf("the daemon ended: %s", log.String())
	case <-time.After(time.Minute):
		t.Fatal("the daemon does not mount")
	}
	return root
}

// serveModel speaks OpenAI's API.
func (u *user) serveModel(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Stream   bool
		Messages []struct{ Content string }
		Input    string
	}
	_ = json.NewDecoder(r.Body).Decode(&req)
	switch {
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-5.4","object":"model"},{"id":"text-embedding-3-small","object":"model"},{"id":"gpt-4o-mini-tts","object":"model"}]}`)
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		u.calls.Add(1)
		fmt.Fprintf(w, `{"object":"list","model":"text-embedding-3-small","data":[{"object":"embedding","index":0,"embedding":[0.5,%d]}],"usage":{"prompt_tokens":100,"total_tokens":100}}`, len(req.Input))
	case strings.HasSuffix(r.URL.Path, "/audio/speech"):
		w.Header().Set("Content-Type", "audio/wav")
		fmt.Fprint(w, "RIFF\x00\xff")
	case req.Stream:
		u.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		text, _ := json.Marshal("re: " + req.Messages[len(req.Messages)-1].Content)
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5.4","choices":[{"index":0,"delta":{"role":"assistant","content":%s}}]}`+"\n\n", text)
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5.4","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5.4","choices":[],"usage":{"prompt_tokens":50,"completion_tokens":100,"total_tokens":150}}`+"\n\n")
		fmt.Fprint(w, "data: [DONE]\n\n")
	default:
		http.Error(w, `{"error":{"message":"what?"}}`, http.StatusBadRequest)
	}
}

// agent makes an agent that pays 1 µ$ for a token of an answer, with limits.
func (u *user) agent(t *testing.T, name, limits string) string {
	t.Helper()
	dir := u.root + "/agents/" + name
	require.NoError(t, os.Mkdir(dir, 0o755))
	u.sh(t, `echo '`+limits+`' >`+dir+`/budget/limits`)
	u.sh(t, `echo '{"default_model":"gpt-5.4","default_max_tokens":100,"prices":{"*":{"input_microusd":0,"output_microusd":1000000}}}' >`+dir+`/compute/policy`)
	return dir
}

func (u *user) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := u.try(t, script)
	require.NoError(t, err, "%s\n%s", script, out)
	return out
}

func (u *user) try(t *testing.T, script string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "EXAMPLES="+u.examples, "ROOT="+u.root)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u *user) answersItsInbox(t *testing.T) {
	u.agent(t, "alice", `{"total_microusd":500}`)
	u.agent(t, "bob", `{"total_microusd":0}`)
	before := u.calls.Load()
	u.sh(t, `cd "$ROOT/agents/bob"; for i in 1 2 3 4 5 6 7 8; do echo "{\"to\":\"alice\",\"body\":\"question $i\"}" >outbox/new; done`)
	said := u.sh(t, `"$EXAMPLES/answer.sh" "$ROOT/agents/alice"`)
	require.Contains(t, said, "I stop: ")
	require.EqualValues(t, 5, u.calls.Load()-before, "the money was for five")
	replies := u.sh(t, `cd "$ROOT/agents/bob/inbox"; for i in 1 2 3 4 5; do cat next; done | jq -r .body; jq .queues.inbox <../status`)
	require.Equal(t, "re: question 1\nre: question 2\nre: question 3\nre: question 4\nre: question 5\n0\n", replies)
	require.Equal(t, "500\n", u.sh(t, `jq .total.spent_microusd "$ROOT/agents/alice/budget/usage"`))
}

func (u *user) sendsARequestAsItIs(t *testing.T) {
	u.agent(t, "carol", `{}`)
	out := u.sh(t, `cd "$ROOT/agents/carol/compute"; cat "$EXAMPLES/request.json" >new && cat jobs/1/output`)
	require.Equal(t, "re: Hello!", out)
}

func (u *user) embedsAFolder(t *testing.T) {
	u.agent(t, "dan", `{}`)
	folder := t.TempDir()
	for i := range 4 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d.txt", folder, i), []byte(strings.Repeat("x", i+1)), 0o600))
	}
	u.sh(t, `"$EXAMPLES/embed.sh" "$ROOT/agents/dan" `+folder+`/*.txt`)
	require.Equal(t, "[0.5,1]\n[0.5,2]\n[0.5,3]\n[0.5,4]\n", u.sh(t, `cat `+folder+`/*.vec`))
}

func (u *user) speaks(t *testing.T) {
	u.agent(t, "gina", `{}`)
	out := u.sh(t, `cd "$ROOT/agents/gina/compute"
echo '{"kind":"speak","model":"gpt-4o-mini-tts","voice":"alloy","input":"hi","max_cost_microusd":1000}' >new && cat jobs/1/result`)
	require.Equal(t, "RIFF\x00\xff", out)
}

func (u *user) asksForApproval(t *testing.T) {
	u.agent(t, "eve", `{"total_microusd":10000,"approval_threshold_microusd":1000}`)
	before := u.calls.Load()
	out := u.sh(t, `cd "$ROOT/agents/eve"
echo '{"max_cost_microusd":5000,"messages":[{"role":"user","content":"dear"}]}' >compute/new
jq -r .state compute/jobs/1/status
jq -r .max_microusd approvals/*`)
	require.Equal(t, "awaiting-approval\n5000\n", out)
	require.Equal(t, before, u.calls.Load(), "nothing was asked of the model")
	out = u.sh(t, `cd "$ROOT/agents/eve"; echo approve >approvals/*; cat compute/jobs/1/output; ls approvals | wc -l`)
	require.Equal(t, "re: dear0\n", out)
	u.sh(t, `cd "$ROOT/agents/eve"
echo '{"max_cost_microusd":5000,"messages":[{"role":"user","content":"dearer"}]}' >compute/new
echo 'deny too much' >approvals/*`)
	out = u.sh(t, `cd "$ROOT/agents/eve/compute/jobs/2"; cat result >/dev/null; jq -r '.state, .error.reason' status`)
	require.Contains(t, out, "failed\n")
	require.Contains(t, out, "too much")
	require.Equal(t, "100 0\n", u.sh(t, `jq -r '"\(.total.spent_microusd) \(.held_microusd)"' "$ROOT/agents/eve/budget/usage"`))
}

func (u *user) races(t *testing.T) {
	u.agent(t, "frank", `{}`)
	before := u.calls.Load()
	out := u.sh(t, `cd "$ROOT/agents/frank/compute"
ask() { exec 3<>new; echo '{"idempotency_key":"once","messages":[{"role":"user","content":"x"}]}' >&3; read -r n <&3; echo "$n"; }
(ask) & (ask) & wait
cat jobs/once/output >/dev/null; ls jobs`)
	require.Equal(t, "1\n1\n1\n", out)
	require.EqualValues(t, 1, u.calls.Load()-before)
	out, err := u.try(t, `cd "$ROOT/agents/frank/compute"; echo '{"idempotency_key":"once","messages":[{"role":"user","content":"y"}]}' >new`)
	require.Error(t, err)
	require.Contains(t, out, "File exists")
}
