package data

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// boxedDaemon has the agent p1, with a file in the sandbox of a session that
// has ended, and a session that runs.
func boxedDaemon(t *testing.T) (*daemon.Daemon, *daemon.Tree) {
	t.Helper()
	daemon.HelperFor(t)
	d := daemon.Start(t, "--containers", "main=bwrap:")
	r := d.RootWith(t, "p1")
	if h := r.Read("agents/p1/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	r.Ask("agents/p1/containers/new", "echo P1SECRET > priv")
	r.Read("agents/p1/containers/sessions/1/result")
	r.Ask("agents/p1/containers/new", `{"commands":["echo KEPT > k"],"keep":true}`)
	daemon.Eventually(t, "the command has run", func() bool {
		return strings.Contains(r.Read("agents/p1/containers/sessions/2/status"), `"commands_ended":1`)
	})
	return d, r
}

// whole checks that p1 has what boxedDaemon gave it.
func whole(t *testing.T, r *daemon.Tree, when string) {
	t.Helper()
	daemon.Equal(t, when+" p1's file", r.Read("agents/p1/containers/sessions/1/files/workspace/priv"), "P1SECRET\n")
	daemon.Has(t, when+" p1's session", r.Read("agents/p1/containers/sessions/2/status"), `"state":"running"`)
	daemon.Equal(t, when+" its file", r.Read("agents/p1/containers/sessions/2/files/workspace/k"), "KEPT\n")
}

// An agent of a bundle has nothing of what its original has on this machine.
func TestImportOwnsNoSandbox(t *testing.T) {
	d, r := boxedDaemon(t)
	d.MustCtl(d.MustCtl(nil, "export", "p1"), "import", "--new-identity", "--as", "p2")
	daemon.Has(t, "p2's session", r.Read("agents/p2/containers/sessions/2/status"), `"state":"failed"`, "interrupted")
	for _, path := range []string{"1/files/workspace/priv", "2/files/workspace/k"} {
		daemon.Refused(t, path, daemon.Second(r.TryRead("agents/p2/containers/sessions/"+path)), fsys.NotExist)
	}
	whole(t, r, "after the import")
	d.MustCtl(nil, "stop", "p2")
	d.MustCtl(nil, "delete", "p2")
	whole(t, r, "after the removal of the copy")
}

// rewritten is the bundle b with its records of a part changed, and whole.
func rewritten(t *testing.T, b []byte, part string, change func(text string) string) []byte {
	t.Helper()
	type file struct {
		name string
		data []byte
	}
	var files []file
	var manifest map[string]any
	in := tar.NewReader(bytes.NewReader(b))
	for h, err := in.Next(); err == nil; h, err = in.Next() {
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case h.Name == "manifest.json":
			if err := json.Unmarshal(data, &manifest); err != nil {
				t.Fatal(err)
			}
		case h.Name == "records/containers.jsonl":
			name := "records/" + part + ".jsonl"
			if part != "containers" {
				files = append(files, file{h.Name, data})
			}
			files = append(files, file{name, []byte(change(string(data)))})
		case h.Name != "manifest.sha256":
			files = append(files, file{h.Name, data})
		}
	}
	var members []map[string]any
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		m := map[string]any{"name": f.name, "size": len(f.data), "sha256": hex.EncodeToString(sum[:])}
		if n := bytes.Count(f.data, []byte("\n")); strings.HasPrefix(f.name, "records/") && n > 0 {
			m["records"] = n
		}
		members = append(members, m)
	}
	manifest["members"] = members
	head, _ := json.Marshal(manifest)
	sum := sha256.Sum256(head)
	files = append([]file{{"manifest.json", head}}, append(files, file{"manifest.sha256", []byte(hex.EncodeToString(sum[:]) + "\n")})...)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.data)), Mode: 0o600, Format: tar.FormatUSTAR})
		w.Write(f.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What a hostile bundle says of sandboxes is not believed, and nothing that it
// says of a session makes a read wait.
func TestImportHostileSandbox(t *testing.T) {
	d, r := boxedDaemon(t)
	victim := regexp.MustCompile(`"sandbox\\":\\"(a9[0-9a-f]+)`).FindStringSubmatch(string(d.MustCtl(nil, "export", "p1")))[1]
	r.Mkdir("agents", "src")
	r.Ask("agents/src/containers/new", "true")
	r.Read("agents/src/containers/sessions/1/result")
	b := d.MustCtl(nil, "export", "src")
	own := regexp.MustCompile(`(\\"sandbox\\":\\")[^\\]*`)
	state := regexp.MustCompile(`(\\"state\\":\\")done`)
	for name, c := range map[string]struct{ sandbox, state string }{
		"h1": {victim, "done"}, "h2": {victim, "running"}, "h3": {"..", "done"}, "h4": {"../../..", "running"},
	} {
		d.MustCtl(rewritten(t, b, "containers", func(text string) string {
			return state.ReplaceAllString(own.ReplaceAllString(text, "${1}"+c.sandbox), "${1}"+c.state)
		}), "import", "--new-identity", "--as", name)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		at, err := fsys.WalkPath(ctx, r.Root, "agents/"+name+"/containers/sessions")
		if err == nil {
			_, err = fsys.List(ctx, at)
		}
		if err == nil {
			at, err = fsys.WalkPath(ctx, at, "1/status")
		}
		if err == nil {
			_, err = at.Stat(ctx)
		}
		cancel()
		if err != nil {
			t.Fatalf("%s: the sessions: %v", name, err)
		}
		if c.state == "running" {
			daemon.Has(t, name, r.Read("agents/"+name+"/containers/sessions/1/status"), `"state":"failed"`, "interrupted")
		}
		daemon.Refused(t, name, daemon.Second(r.TryRead("agents/"+name+"/containers/sessions/1/files/workspace/priv")), fsys.NotExist)
		d.MustCtl(nil, "stop", name)
		d.MustCtl(nil, "delete", name)
		whole(t, r, "after "+name)
	}
	d.SaysNo(rewritten(t, b, "containers", func(text string) string {
		return state.ReplaceAllString(text, "${1}done\\\",\\\"workspace\\\":\\\"../x")
	}), "cannot be called", "import", "--new-identity", "--as", "h5")
	d.SaysNo(rewritten(t, b, "tokens", func(string) string { return "" }), "an agent has no such part", "import", "--new-identity", "--as", "h6")
}
