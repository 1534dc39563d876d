//go:build unix

package exec

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
)

// model answers as its input tells it to.
const model = `
read word rest
case $word in
slow) echo begin; sleep 1000 & wait ;;
fail) echo begin; echo "no such luck" >&2; exit 3 ;;
*)    echo "$word $rest" ;;
esac`

func TestConformance(t *testing.T) {
	p, err := New(Config{Command: model})
	if err != nil {
		t.Fatal(err)
	}
	conformance.TestCompute(t, conformance.Compute{
		Provider:   p,
		Model:      "any",
		Say:        "hello wörld 😀\n",
		Want:       "hello wörld 😀\n",
		Slow:       "slow\n",
		Fail:       "fail\n",
		FailCode:   fsys.Unavailable,
		FailReason: "no such luck",
	})
}

// ask runs command and returns the text, the chunks and the error.
func ask(t *testing.T, ctx context.Context, command string, req models.Request) (string, []models.Chunk, error) {
	t.Helper()
	p, err := New(Config{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var chunks []models.Chunk
	_, err = p.Run(ctx, req, func(c models.Chunk) error {
		text += c.Text
		chunks = append(chunks, c)
		return nil
	})
	return text, chunks, err
}

func TestRequestIsInTheFile(t *testing.T) {
	body, err := models.ParseBody([]byte(`{"messages":[{"role":"user","content":"x"}],"odd":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	req, err := models.ParseRequest("", body)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := ask(t, t.Context(), `ls -l "$AGENT9_REQUEST" | cut -c1-10; cat "$AGENT9_REQUEST"; printf %s "$AGENT9_REQUEST"`, req)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	if lines[0] != "-rw-------" {
		t.Errorf("the mode of the file is %s", lines[0])
	}
	if want := string(body.Bytes()); lines[1] != want || !json.Valid([]byte(lines[1])) {
		t.Errorf("the file has %s, want %s", lines[1], want)
	}
	if _, err := os.Stat(lines[2]); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestInputNobodyReads(t *testing.T) {
	text, _, err := ask(t, t.Context(), "echo ok", models.Ask("", strings.Repeat("x", 1<<20)))
	if err != nil || text != "ok\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestCharactersAreWhole(t *testing.T) {
	const euro = `printf '\342'; head -c0 /dev/null; sleep 0.05; printf '\202'; sleep 0.05; printf '\254!\377'`
	text, chunks, err := ask(t, t.Context(), euro, models.Ask("", "x"))
	if err != nil || text != "€!\xff" {
		t.Fatalf("got %q, %v", text, err)
	}
	if chunks[0].Text[:3] != "€" {
		t.Errorf("the first chunk is %q", chunks[0].Text)
	}
}

func TestWhatIsSaidOnFailureIsBounded(t *testing.T) {
	_, _, err := ask(t, t.Context(), `yes "a long complaint" | head -c 300000 >&2; echo "the point" >&2; exit 1`, models.Ask("", "x"))
	reason := fsys.ReasonOf(err)
	if len(reason) > 3000 || !strings.HasSuffix(reason, "the point") || !strings.Contains(reason, "status 1") {
		t.Errorf("the reason has %d bytes and is …%q", len(reason), reason[max(0, len(reason)-80):])
	}
}

func TestSignal(t *testing.T) {
	_, _, err := ask(t, t.Context(), `kill -TERM $$`, models.Ask("", "x"))
	if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), "terminated") {
		t.Errorf("got %v", err)
	}
}

// A command that leaves a process behind which holds the output open is over
// all the same, and so is the process.
func TestWhatIsLeftBehind(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	text, _, err := ask(t, t.Context(), `sleep 1000 & echo $! > `+pidFile+`; echo done`, models.Ask("", "x"))
	if err != nil || text != "done\n" {
		t.Errorf("got %q, %v", text, err)
	}
	waitGone(t, pidFile)
}

func TestCancelKillsGrandchildren(t *testing.T) {
	for name, command := range map[string]string{
		"in the group":    `sh -c 'sleep 1000 & echo $! > PID; echo begin; wait' & wait`,
		"ignoring TERM":   `trap "" TERM HUP INT; echo $$ > PID; echo begin; while :; do sleep 1000; done`,
		"holding the end": `exec 3>&1; sh -c 'echo $$ > PID; echo begin >&3; exec sleep 1000' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			p, err := New(Config{Command: strings.ReplaceAll(command, "PID", pidFile)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err = p.Run(ctx, models.Ask("", "x"), func(models.Chunk) error { cancel(); return nil })
			if fsys.CodeOf(err) != fsys.Canceled {
				t.Errorf("got %v", err)
			}
			waitGone(t, pidFile)
		})
	}
}

// waitGone waits until the process named in file is dead.
func waitGone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); ; {
		if syscall.Kill(pid, 0) != nil || zombie(pid) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// zombie reports whether pid only waits for its parent, here the init of a
// container that may not collect it.
func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := b[strings.LastIndexByte(string(b), ')')+1:]
	return strings.HasPrefix(strings.TrimSpace(string(after)), "Z")
}
