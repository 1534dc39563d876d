package conformance_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUserOfContainers does what the manual tells a new user of /containers to
// do, with the manual's own scripts, on a mount. The sandboxes are
// bubblewrap's.
func TestUserOfContainers(t *testing.T) {
	need(t, "the manual's scripts use it", "bash", "jq", "bwrap")
	u := &user{}
	var err error
	u.examples, err = filepath.Abs("../docs/examples")
	require.NoError(t, err)
	bin := buildCommands(t)
	build := exec.Command("go", "build", "-o", bin+"/", "agent9/cmd/a9")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	// The model writes what does not work first.
	model := filepath.Join(t.TempDir(), "model.sh")
	require.NoError(t, os.WriteFile(model, []byte(`#!/bin/sh
q=$(cat)
case $q in
*"did not work"*) echo 'echo $((6 * 7))' ;;
*Answer*) echo 'echo oh no >&2; exit 3' ;;
*) echo "re: $q" ;;
esac
`), 0o755))
	u.root = mounted(t, bin, nil, "--compute", "model=exec:"+model, "--containers", "local=bwrap:")
	u.sh(t, `mkdir "$ROOT/agents/alice"`)
	dir := u.root + "/agents/alice"
	if health := u.sh(t, "cat "+dir+"/containers/providers/local/health"); !strings.Contains(health, `"ok":true`) {
		t.Skip("no bubblewrap here: " + health)
	}
	t.Run("a model writes a program, and it is tested", func(t *testing.T) {
		out := u.sh(t, `"$EXAMPLES/write-and-test.sh" `+dir+` "Print six times seven."`)
		require.Contains(t, out, "oh no\n")
		require.Contains(t, out, "42\nit works, after 2\n")
	})
	t.Run("a Python program, with a network and without", func(t *testing.T) { u.runsPython(t, dir) })
	t.Run("a build, followed, and what it built", func(t *testing.T) {
		built := filepath.Join(t.TempDir(), "program")
		out := u.sh(t, `"$EXAMPLES/build.sh" `+dir+" "+built)
		require.Contains(t, out, "step 1\nstep 2\nstep 3\n")
		b, err := os.ReadFile(built)
		require.NoError(t, err)
		require.Equal(t, "built\n", string(b))
	})
	t.Run("rm -r of a running session", func(t *testing.T) { u.removesASession(t, dir) })
	t.Run("a program inside reads its inbox and asks a model", func(t *testing.T) {
		out := u.sh(t, `cd `+dir+`
echo 'is it late?' >inbox/new
exec 3<>containers/new; jq -nc --rawfile p "$EXAMPLES/inside.sh" '{files: {"inside.sh": $p}, commands: ["sh inside.sh"]}' >&3
read -r n <&3; cat containers/sessions/$n/stdout`)
		require.Equal(t, "re: is it late?", strings.TrimSpace(out))
	})
	t.Run("stdin is a file", func(t *testing.T) {
		out := u.sh(t, `cd `+dir+`/containers
exec 3<>new; echo '{"keep":true}' >&3; read -r n <&3; exec 3>&-; cd sessions/$n
exec 3<>exec/new; echo 'sh -s' >&3; read -r m <&3; exec 3>&-
printf 'echo one\necho two >&2\nexit 4\n' >/tmp/script.$$; cat /tmp/script.$$ >exec/$m/stdin; rm /tmp/script.$$
jq .exit_code exec/$m/result; cat exec/$m/stdout exec/$m/stderr
cp "$EXAMPLES/build.sh" files/workspace/; cmp "$EXAMPLES/build.sh" files/workspace/build.sh && mkdir files/workspace/d && mv files/workspace/build.sh files/workspace/d.sh && ls files/workspace
echo kill >ctl; cat result >/dev/null; cat files/workspace/d.sh | head -n 1`)
		require.Contains(t, out, "4\none\ntwo\n")
		require.Contains(t, out, "d.sh\n")
		require.Contains(t, out, "#!/bin/bash\n")
	})
}

func (u *user) runsPython(t *testing.T, dir string) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3 in /usr, which bubblewrap shows")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }))
	defer server.Close()
	u.sh(t, `echo '{"network":true}' >`+dir+`/containers/policy`)
	program := filepath.Join(t.TempDir(), "program.py")
	require.NoError(t, os.WriteFile(program, []byte(`import sys, urllib.request
try:
    print("it said", urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
except OSError as e:
    print("no network")
`), 0o600))
	out := u.sh(t, `"$EXAMPLES/python.sh" `+dir+" "+program+" "+server.URL)
	require.Equal(t, "no network\nit said hello\n", out)
}

func (u *user) removesASession(t *testing.T, dir string) {
	begun := time.Now()
	out := u.sh(t, `cd `+dir+`/containers
exec 3<>new; echo 'echo ready; sleep 1000' >&3; read -r n <&3; exec 3>&-
head -n 1 sessions/$n/stdout
rm -r sessions/$n && ! ls sessions/$n 2>/dev/null
until jq -e '[.sessions["running", "provisioning"]] | add == 0' usage >/dev/null; do read -rt 0.1 <> <(:); done
ls sessions | wc -l`)
	require.True(t, strings.HasPrefix(out, "ready\n"), out)
	require.Less(t, time.Since(begun), 30*time.Second)
}
