package conformance_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
)

// A library is an independent 9P client in Go, attached to a tree.
type library interface {
	list(path string) ([]string, error)
	open(path string, mode mode) (opened, error)
	create(path string) (opened, error) // to write
	// is reports whether err is what this dialect makes of code.
	is(err error, code fsys.Code) bool
	hangUp() // drops the connection as it is
}

type dialer func(network, address, aname string) (library, error)

// Opened is a file of a library, which gives each read to the server at once, as it is asked for.
type opened interface {
	Read(p []byte) (int, error) // io.EOF at the end
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

type mode uint8 // as in both dialects

const (
	forRead  mode = 0
	forWrite mode = 1
	forBoth  mode = 2
	truncate mode = 16
)

// testLibrary is the script of the shell clients, for a client in Go.
func testLibrary(t *testing.T, bin string, dial dialer) {
	d := startDaemon(t, bin)
	address := "127.0.0.1:" + d.port
	c, err := dial("tcp", address, d.token)
	require.NoError(t, err)
	defer func() { c.hangUp() }()

	t.Run("list", func(t *testing.T) {
		names, err := c.list("")
		require.NoError(t, err)
		for _, want := range []string{"README", "budget", "compute", "config", "goals", "inbox", "logs", "status"} {
			require.Contains(t, names, want)
		}
		require.Contains(t, read(t, c, "status"), agent)
	})

	t.Run("message", func(t *testing.T) {
		writeFile(t, c, "inbox/new", "hello "+agent+"\n")
		require.Contains(t, read(t, c, "inbox/next"), "hello "+agent)
		require.Contains(t, ask(t, c, "inbox/new", `{"id":"one-1","body":"x"}`), "one-1")
		require.Contains(t, read(t, c, "inbox/next"), "one-1")
	})

	t.Run("goal", func(t *testing.T) {
		f, err := c.create("goals/plan")
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("first\n"), 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("second\n"), 6)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, "first\nsecond\n", read(t, c, "goals/plan"))
		writeFile(t, c, "goals/plan", "anew\n")
		require.Equal(t, "anew\n", read(t, c, "goals/plan"))
		_, err = c.open("goals/absent", forRead)
		require.Truef(t, c.is(err, fsys.NotExist), "got %v", err)
	})

	t.Run("stream", func(t *testing.T) {
		job := ask(t, c, "compute/new", speak)
		f, err := c.open("compute/jobs/"+job+"/output", forRead)
		require.NoError(t, err)
		defer f.Close()
		for _, word := range []string{"ready", "one", "two"} {
			require.Equal(t, word, readLine(t, f))
			d.heard(word)
		}
		_, err = f.Read(make([]byte, 512))
		require.Equal(t, io.EOF, err)
		require.Contains(t, read(t, c, "compute/jobs/"+job+"/result"), "two")
		require.Contains(t, read(t, c, "compute/jobs/"+job+"/status"), `"done"`)
	})

	t.Run("refusal", func(t *testing.T) {
		for _, r := range []struct {
			path, text string
			want       fsys.Code
		}{
			{"config", "{}", fsys.Permission},
			{"compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":999999999999}`, fsys.Exhausted},
			{"compute/new", `{"messages":"none"}`, fsys.Invalid},
			{"compute/new", `{"messages":]}`, fsys.Invalid},
		} {
			err := write(c, r.path, r.text)
			require.Truef(t, c.is(err, r.want), "%s <- %s: got %v", r.path, r.text, err)
		}
	})

	t.Run("no right", func(t *testing.T) {
		for _, aname := range []string{"", "/", "/agents/" + agent, "a9_0000000000000000000000000000000000000000000"} {
			_, err := dial("tcp", address, aname)
			require.Error(t, err, aname)
		}
	})

	t.Run("hang up in a blocked read", func(t *testing.T) {
		job := ask(t, c, "compute/new", hold)
		output, err := c.open("compute/jobs/"+job+"/output", forRead)
		require.NoError(t, err)
		require.Equal(t, "ready", readLine(t, output))
		next, err := c.open("inbox/next", forRead)
		require.NoError(t, err)
		ended := make(chan error, 2)
		for _, f := range []opened{output, next} {
			go func() {
				_, err := f.Read(make([]byte, 512))
				ended <- err
			}()
		}
		require.Contains(t, read(t, c, "status"), agent, "while reads block")
		c.hangUp()
		// One of them: 9fans lets the others wait when its connection is gone.
		require.Error(t, receive(t, ended, "a blocked read to end"))
		c, err = dial("tcp", address, d.token)
		require.NoError(t, err)
		writeFile(t, c, "inbox/new", "after\n")
		require.Contains(t, read(t, c, "inbox/next"), "after", "nothing was lost")
	})
}

func read(t *testing.T, c library, path string) string {
	t.Helper()
	f, err := c.open(path, forRead)
	require.NoError(t, err, path)
	defer f.Close()
	b, err := io.ReadAll(f)
	require.NoError(t, err, path)
	return string(b)
}

// readLine reads a line, byte by byte so as to take no more.
func readLine(t *testing.T, f opened) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b...) {
		n, err := f.Read(b)
		require.NoError(t, err)
		if n == 1 && b[0] == '\n' {
			return string(line)
		}
	}
}

// write does what a shell's echo TEXT >PATH does, up to its first error.
func write(c library, path, text string) error {
	f, err := c.open(path, forWrite|truncate)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte(text), 0)
	return err
}

func writeFile(t *testing.T, c library, path, text string) {
	t.Helper()
	require.NoError(t, write(c, path, text), path)
}

// ask writes a request and returns the reply of the same handle.
func ask(t *testing.T, c library, path, request string) string {
	t.Helper()
	f, err := c.open(path, forBoth)
	require.NoError(t, err, path)
	defer f.Close()
	_, err = f.WriteAt([]byte(request), 0)
	require.NoError(t, err, path)
	b, err := io.ReadAll(f)
	require.NoError(t, err, path)
	return strings.TrimSpace(string(b))
}
