package process

import (
	"agent9/conformance/daemon"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	d := daemon.New(t)
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--nonsense"}, []string{"nonsense", "--help"}},
		{[]string{"--per-day", "ten"}, []string{"--per-day", "not an amount"}},
		{[]string{"--per-day", "2"}, []string{"--per-day: the amount 2 has no unit", "2usd"}},
		{[]string{"--per-day", "-1"}, []string{"--per-day", "not an amount"}},
		{[]string{"serve"}, []string{`unexpected argument "serve"`, "--help"}},
		{[]string{"--compute", "x"}, []string{"--compute x: want ID=DRIVER:TARGET"}},
		{[]string{"--compute", "x=exec"}, []string{"--compute x=exec: want ID=DRIVER:TARGET"}},
		{[]string{"--compute", "=echo:"}, []string{"--compute =echo:: want ID=DRIVER:TARGET"}},
		{[]string{"--compute", "a/b=echo:"}, []string{"--compute a/b=echo:: want ID=DRIVER:TARGET"}},
		{[]string{"--compute", "x=gpt:y"}, []string{"no driver is called gpt; there are "}},
		{[]string{"--compute", "x=openai:nonsense"}, []string{"--compute x=openai:nonsense: "}},
		{[]string{"--compute", "x=exec:"}, []string{"--compute x=exec:: "}},
		{[]string{"--compute", "echo=exec:cat"}, []string{"two providers are called echo"}},
		{[]string{"--listen", "carrier-pigeon"}, []string{`"carrier-pigeon" is not an address`, "unix:PATH or tcp:HOST:PORT"}},
		{[]string{"--listen", "tcp:0.0.0.0:0"}, []string{"tcp:0.0.0.0:0 can be reached from other machines", "--tls-cert and --tls-key"}},
		{[]string{"--listen", "tcp!*!0"}, []string{"tcp!*!0 can be reached from other machines"}},
		{[]string{"--http", "8009"}, []string{`--http: "8009" is not an address; write HOST:PORT, such as 127.0.0.1:8009`}},
		{[]string{"--http", "localhost"}, []string{"HOST:PORT"}},
		{[]string{"--tls-cert", "no.pem"}, []string{"--tls-cert and --tls-key are given together"}},
		{[]string{"--tls-client-ca", "no.pem"}, []string{"--tls-client-ca needs --tls-cert and --tls-key"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			d.As(t).Refuses(2, c.args, c.words...)
		})
	}
	if _, err := os.Stat(d.Data()); err == nil {
		t.Error("a daemon that was not started has made its data directory")
	}
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := daemon.New(t)
	at := "tcp:" + l.Addr().String()
	d.Refuses(1, []string{"--listen", at}, "listening on "+at, "address already in use")
	if _, err := os.Lstat(d.Sock()); err == nil {
		t.Error("the operator's socket was left")
	}
	d.Start() // nothing keeps it from being started right
}

func TestSocketPath(t *testing.T) {
	t.Run("too long", func(t *testing.T) {
		d := daemon.New(t)
		long := filepath.Join(d.Dir, strings.Repeat("x", 120))
		d.Refuses(1, []string{"--listen", "unix:" + long}, long, "too long", "shorter")
	})
	t.Run("in no directory", func(t *testing.T) {
		d := daemon.New(t)
		none := filepath.Join(d.Dir, "no", "such")
		d.Refuses(1, []string{"--listen", "unix:" + filepath.Join(none, "s")}, "there is no directory "+none, "make that first")
		if _, err := os.Stat(filepath.Dir(none)); err == nil {
			t.Error("the directory was made")
		}
	})
	t.Run("something else", func(t *testing.T) {
		d := daemon.New(t)
		if err := os.WriteFile(d.Sock(), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Refuses(1, nil, d.Sock()+" exists and is not a socket; choose another path")
		if b, err := os.ReadFile(d.Sock()); err != nil || string(b) != "mine" {
			t.Errorf("the file that was there is now %q, %v", b, err)
		}
	})
	t.Run("stale", func(t *testing.T) {
		d := daemon.Start(t)
		d.Root().Mkdir("agents", "alice")
		d.Kill()
		if _, err := os.Lstat(d.Sock()); err != nil {
			t.Fatalf("a daemon that was killed should leave its socket: %v", err)
		}
		d.Start()
		daemon.Equal(t, "agents", d.Root().List("agents"), "alice")
	})
	t.Run("live", func(t *testing.T) {
		d := daemon.Start(t)
		other := daemon.New(t)
		other.Refuses(1, []string{"--listen", "unix:" + d.Sock()}, "another daemon listens on "+d.Sock())
		d.Root().Mkdir("agents", "alice") // at a socket that is as it was
	})
	t.Run("mode", func(t *testing.T) {
		d := daemon.Start(t)
		info, err := os.Lstat(d.Sock())
		if err != nil {
			t.Fatal(err)
		}
		daemon.Equal(t, "mode", info.Mode().Perm(), 0o600)
	})
}

func TestSecondDaemon(t *testing.T) {
	d := daemon.Start(t)
	d.Root().Mkdir("agents", "alice")
	key, err := os.ReadFile(filepath.Join(d.Data(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	second := daemon.New(t)
	second.Refuses(1, []string{"--data", d.Data()},
		filepath.Join(d.Data(), "agent9.db"), "in use by another daemon", strconv.Itoa(d.Cmd.Process.Pid), "stop that one")
	if _, err := os.Lstat(second.Sock()); err == nil {
		t.Error("the second daemon made its socket")
	}
	if again, err := os.ReadFile(filepath.Join(d.Data(), "master.key")); err != nil || string(again) != string(key) {
		t.Error("the second daemon changed the master key")
	}
	d.Root().Write("agents/alice/inbox/new", "still here")
	daemon.Equal(t, "state", strings.Count(d.Root().List("agents/alice/inbox"), " "), len(strings.Fields(daemon.InboxFiles)))
}

// A damaged database is named, left as it is, and works again when it is put
// back.
func TestDamagedDatabase(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Make("agents/alice/goals", "one", "kept\n")
	d.Signal(15)
	d.Ends(daemon.Limit)
	path := filepath.Join(d.Data(), "agent9.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	garbled := append([]byte(nil), whole...)
	for i := range min(len(garbled), 1<<14) {
		garbled[i] ^= 0x5a
	}
	for name, b := range map[string][]byte{
		"garbled":        garbled,
		"cut":            whole[:3*os.Getpagesize()],
		"empty":          {},
		"not a database": []byte("Dear diary,\n"),
	} {
		t.Run(name, func(t *testing.T) {
			d := d.As(t)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			d.Refuses(1, nil, path, "not a complete agentd database", "it was not changed", "restore it from a backup, or move it away")
			if now, err := os.ReadFile(path); err != nil || string(now) != string(b) {
				t.Errorf("the file was changed: %d bytes, %v", len(now), err)
			}
			if _, err := os.Lstat(d.Sock()); err == nil {
				t.Error("it made its socket")
			}
		})
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Start()
	daemon.Equal(t, "a goal", d.Root().Read("agents/alice/goals/one"), "kept\n")
}

func TestMasterKey(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	pubkey := r.Read("agents/alice/identity/pubkey")
	d.Signal(15)
	d.Ends(daemon.Limit)
	path := filepath.Join(d.Data(), "master.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, path, "only its owner may read", "chmod 600")

	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, path+" is missing", "put it back from your backup")
	if _, err := os.Lstat(path); err == nil {
		t.Error("a new master key was made over keys that it cannot open")
	}

	if err := os.WriteFile(path, []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, path, "not the one that the keys here were sealed under")

	if err := os.WriteFile(path, key[:40], 0o600); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, path, "damaged", "want 64 hex digits")

	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Start()
	r = d.Root()
	daemon.Equal(t, "public key", r.Read("agents/alice/identity/pubkey"), pubkey)
	signature := r.Ask("agents/alice/identity/sign", "hello")
	daemon.Equal(t, "verified", r.Ask("agents/alice/identity/verify",
		`{"pubkey":"`+strings.TrimSpace(pubkey)+`","signature":"`+signature+`","message":"hello"}`), "true")
}

func TestUnusableData(t *testing.T) {
	d := daemon.New(t)
	if err := os.WriteFile(d.Data(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, "the data directory "+d.Data())
}

// What a flag says is one thing, whatever commas it has.
func TestFlagsMayHaveCommas(t *testing.T) {
	d := daemon.Start(t, "--compute", "cut=exec:cut -d, -f2", "--compute", "free=openai,price=0:http://127.0.0.1:1")
	r := d.Root()
	r.Mkdir("agents", "alice")
	alice := d.At("/agents/alice")
	daemon.Has(t, "the free one", alice.Read("compute/providers/free/info"), `"free":true`)
	alice.Write("compute/new", `{"provider":"cut","messages":[{"role":"user","content":"one,two,three"}],"idempotency_key":"k"}`)
	alice.Read("compute/jobs/k/result")
	daemon.Equal(t, "the answer", alice.Read("compute/jobs/k/output"), "two\n")
	daemon.New(t).Refuses(2, []string{"--containers", "b=cells:x=/,y=/usr"}, "--containers b=cells:x=/,y=/usr: no driver is called cells")
}
