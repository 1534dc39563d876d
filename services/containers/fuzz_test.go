package containers

import (
	"path"
	"strings"
	"testing"

	"agent9/conformance/strict"
)

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"echo hi", "", `{"commands":["a",{"argv":["b","c"],"env":{"X":"y"},"stdin":"z"}],"keep":true}`,
		`{"files":{"a/b":"text","c":{"base64":"AAA="}},"repo":{"url":"https://example.com/x.git","ref":"main"}}`,
		`{"files":{"../x":"y"}}`, `{"files":{".":"y"}}`, `{"commands":["x"],"limits":{"time_s":5,"cpus":0.5,"network":true}}`, `{"keep":true}}`,
		`{"workspace":true,"keep":true,"max_cost_microusd":7}`, `[]`, `{"keep":true} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		sub, ok := strict.Request(t, in, parseSubmission)
		if !ok {
			return
		}
		for name := range sub.req.Files {
			if full := path.Join("/w", name); !strings.HasPrefix(full, "/w/") || strings.ContainsRune(name, 0) {
				t.Fatalf("%q has the file %q", in, name)
			}
		}
		for _, c := range sub.req.Commands {
			if argv := c.argv(); len(argv) == 0 || argv[0] == "" || strings.ContainsRune(strings.Join(argv, ""), 0) {
				t.Fatalf("%q runs %q", in, argv)
			}
		}
	})
}

func FuzzCommand(f *testing.F) {
	for _, s := range []string{"ls -l", "", `{"argv":["a"],"tty":{"rows":1,"cols":2}}`, `{"command":"x","stdin":true}`, `{"command":"x"}}`, "[ -f x ]", `{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 0 && strings.TrimSpace(string(in)) != "" && strings.TrimSpace(string(in))[0] == '[' {
			return // a shell's test
		}
		if c, ok := strict.Request(t, in, parseCommand); ok && c.argv()[0] == "" {
			t.Fatalf("%q runs nothing", in)
		}
	})
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"allow_images":["debian:*"],"block_images":["["]}`, `{"max_limits":{"time_s":60},"limits":{"time_s":61}}`,
		`{"network":true,"max_concurrent":3}`, `null`, `{}}`, `{} {}`, `{"keep_sessions":"7d"}`, `{"limits":{"cpus":1e300}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if p, ok := strict.Object(t, in, parsePolicy); ok && p.check() != nil {
			t.Fatalf("%q is a policy that does not hold: %+v", in, p)
		}
	})
}

func FuzzSandboxName(f *testing.F) {
	f.Add("alice.1")
	f.Add("alice.1.snapshot")
	f.Add("a.b.2")
	f.Fuzz(func(t *testing.T, name string) {
		owner, n, ok := ParseSandboxName(name)
		if ok && n > 0 && !strings.HasSuffix(name, ofSnapshot) && strings.Count(name, ".") == 1 {
			if back, m, ok := ParseSandboxName(SandboxName(owner, n)); !ok || back != owner || m != n {
				t.Fatalf("%q is of %q %d, and that is of %q %d", name, owner, n, back, m)
			}
		}
	})
}
