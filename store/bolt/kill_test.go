package bolt_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/store"
	"agent9/store/bolt"
)

// TestKill kills a program that writes, and looks for every record that was
// acknowledged to it.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	acked := make(map[string]bool)
	flushed := 0
	for round := range 3 {
		for _, line := range runAndKill(t, path, round, 200) {
			var size int
			if _, err := fmt.Sscanf(line, "flushed %d", &size); err == nil {
				flushed = max(flushed, size)
			} else {
				acked[line] = true
			}
		}
		checkAfterKill(t, path, acked, flushed)
	}
	if len(acked) < 300 || flushed == 0 {
		t.Errorf("only %d records and %d bytes, the test says little", len(acked), flushed)
	}
}

// runAndKill runs writes in another process, kills it after it acknowledged n
// records, and returns all that it acknowledged.
func runAndKill(t *testing.T, path string, round, n int) (lines []string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriteUntilKilled$")
	cmd.Env = append(os.Environ(), "BOLT_TEST_DB="+path, fmt.Sprintf("BOLT_TEST_ROUND=%d", round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	// To the end of the pipe: what it wrote before it died was acknowledged.
	for s := bufio.NewScanner(out); s.Scan(); {
		if lines = append(lines, s.Text()); len(lines) == n {
			cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || len(lines) < n {
		t.Fatalf("the writer ended by itself after %d records: %v", len(lines), err)
	}
	return lines
}

// TestWriteUntilKilled is the program that TestKill kills.
func TestWriteUntilKilled(t *testing.T) {
	path, round := os.Getenv("BOLT_TEST_DB"), os.Getenv("BOLT_TEST_ROUND")
	if path == "" {
		t.Skip("only in a process that TestKill starts")
	}
	ctx := t.Context()
	d, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := store.OpenLog(ctx, store.Sub(d, "log/"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%s-%d-%d", round, w, i)
				err := d.Update(ctx, func(tx store.Store) error {
					if err := store.In(tx, store.Sub(d, "a/")).Put(ctx, key, nil); err != nil {
						return err
					}
					if err := l.Append(tx, []byte(key+"\n")); err != nil {
						return err
					}
					return store.In(tx, store.Sub(d, "b/")).Put(ctx, key, nil)
				})
				if err != nil {
					ended <- err
					return
				}
				os.Stdout.WriteString(key + "\n") // one write(2)
			}
		}()
	}
	go func() {
		for {
			if err := l.Buffer([]byte("buffered\n")); err != nil {
				ended <- err
				return
			}
			size := l.Size()
			if err := l.Flush(ctx); err != nil {
				ended <- err
				return
			}
			os.Stdout.WriteString(fmt.Sprintf("flushed %d\n", size))
		}
	}()
	t.Fatal(<-ended)
}

func checkAfterKill(t *testing.T, path string, acked map[string]bool, flushed int) {
	t.Helper()
	ctx := t.Context()
	d := openAt(t, path)
	defer d.Close()
	l, err := store.OpenLog(ctx, store.Sub(d, "log/"))
	if err != nil {
		t.Fatal(err)
	}
	if l.Size() < int64(flushed) {
		t.Errorf("the log has %d bytes, and %d were flushed", l.Size(), flushed)
	}
	text := make([]byte, l.Size())
	if n, err := l.ReadAt(text, 0); n != len(text) || err != nil {
		t.Fatalf("read %d of %d bytes of the log: %v", n, len(text), err)
	}
	logged := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		logged[line]++
	}
	// Each record is there in all three places, or in none.
	stored := make(map[string]bool)
	for p, err := range store.All(ctx, d, "a/") {
		if err != nil {
			t.Fatal(err)
		}
		key := p.Key[len("a/"):]
		stored[key] = true
		if _, err := d.Get(ctx, "b/"+key); err != nil || logged[key+"\n"] != 1 {
			t.Errorf("record %s is there by half: %v, %d times in the log", key, err, logged[key+"\n"])
		}
	}
	for key := range acked {
		if !stored[key] {
			t.Errorf("record %s was acknowledged, and is lost", key)
		}
	}
	if n := len(logged) - 1; n != len(stored) {
		t.Errorf("%d records are in the log, %d are stored", n, len(stored))
	}
}
