package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

func TestProfiles(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("accounts", "team")
	r.Mkdir("profiles", "support")
	for _, dir := range []string{"budget", "goals", "skills"} {
		r.Mkdir("profiles/support", dir)
	}
	r.Make("profiles/support", "README", "For those who help. {{NOT_A_VARIABLE}}\n")
	r.Make("profiles/support", "config", `{"accept":["{{PEER}}"],"inbox":{"limit":{{LIMIT}}}}`)
	r.Make("profiles/support/budget", "limits", `{"total_microusd":9,"parent":"team"}`)
	r.Make("profiles/support/goals", "help", "{{NAME}} helps {{PEER}}.\n")
	r.Make("profiles/support/skills", "help.md", "---\nname: help\ndescription: {{TONE}}\n---\n")

	d.SaysNo(nil, "alice: profile support: config needs {{PEER}}, config needs {{LIMIT}}, goals/help needs {{PEER}}, skills/help.md needs {{TONE}}, which is not set",
		"create", "alice", "--profile", "support")
	d.SaysNo(nil, "the variable MODEL is set, and no file has {{MODEL}}",
		"create", "alice", "--profile", "support", "--set", "PEER=b", "--set", "LIMIT=1", "--set", "TONE=x", "--set", "MODEL=m")
	d.SaysNo(nil, "profile support: config: inbox.limit must be from 1 to 1048576",
		"create", "alice", "--profile", "support", "--set", "PEER=b", "--set", "LIMIT=99999999", "--set", "TONE=x")
	d.SaysNo(nil, "there is no profile nothing; mkdir profiles/nothing makes one", "create", "alice", "--profile", "nothing")
	daemon.Equal(t, "agents", r.List("agents"), "")
	daemon.Equal(t, "what is under team", r.TryRemove("accounts/team") == nil, true)
	d.SaysNo(nil, "none", "create", "--profile", "support", "--set", "PEER=b", "--set", "LIMIT=1", "--set", "TONE=x", "none")
	r.Mkdir("accounts", "team")

	d.MustCtl(nil, "create", "alice", "--profile", "support", "--set", `PEER=b","x`, "--set", "LIMIT=7", "--set", "TONE=short, kind")
	daemon.Equal(t, "config", r.Read("agents/alice/config"), `{"accept":["b\",\"x"],"inbox":{"limit":7}}`+"\n")
	daemon.Equal(t, "a goal", r.Read("agents/alice/goals/help"), `alice helps b","x.`+"\n")
	daemon.Has(t, "a skill", r.Read("agents/alice/skills/help.md"), "description: short, kind\n")
	daemon.Has(t, "limits", r.Read("agents/alice/budget/limits"), `"total_microusd":9`, `"parent":"team"`)
	daemon.Refused(t, "rmdir of the account", r.TryRemove("accounts/team"), fsys.Busy, "agents/alice has this account above it")
	daemon.Equal(t, "README", strings.Contains(r.Read("agents/alice/README"), "For those"), false)

	r.Write("ctl", "create bob support PEER=alice LIMIT=5 TONE=kind\n")
	daemon.Equal(t, "a goal", r.Read("agents/bob/goals/help"), "bob helps alice.\n")
	daemon.Refused(t, "one that there is", r.TryWrite("ctl", "create bob support PEER=alice LIMIT=5 TONE=kind\n"), fsys.Exist)
	daemon.Refused(t, "a bad variable", r.TryWrite("ctl", "create eve support peer=alice\n"), fsys.Invalid, "KEY is made of capital letters")

	// The one called default is for every mkdir.
	r.Mkdir("profiles", "default")
	r.Make("profiles/default", "config", `{"accept":["{{NAME}}-*"]}`)
	r.Mkdir("agents", "carol")
	daemon.Equal(t, "config", r.Read("agents/carol/config"), `{"accept":["carol-*"]}`+"\n")
	r.Make("profiles/default", "goal", "x")
	daemon.Refused(t, "mkdir with a file that has no place", r.TryMkdir("agents", "dave"), fsys.Permission, "profile default: goal:")
	r.Remove("profiles/default/goal")
	r.Mkdir("profiles/default", "inbox")
	r.Make("profiles/default/inbox", "new", "x")
	daemon.Refused(t, "mkdir with a message", r.TryMkdir("agents", "dave"), fsys.Invalid, "inbox/new: it does not keep what is written to it")

	d.Kill()
	daemon.Equal(t, "what is left of the account that was removed, and of nothing else", strings.Join(daemon.Stored(t, d, "trash/"), " "), "trash/1")
	d.Start()
	r = d.Root()
	daemon.Equal(t, "agents", r.List("agents"), "alice bob carol")
}

func TestLocalProfile(t *testing.T) {
	d := daemon.Start(t)
	dir := t.TempDir()
	for path, text := range map[string]string{"config": `{"accept":["{{PEER}}"]}`, "goals/now/a": "for {{NAME}}", ".git/x": "\xff", "README.md": "{{X}}"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.SaysNo(nil, "alice: the profile: config needs {{PEER}}, which is not set", "create", "alice", "--profile", dir)
	d.MustCtl(nil, "create", "alice", "bob", "--profile", dir, "--set", "PEER=x")
	r := d.Root()
	daemon.Equal(t, "agents", r.List("agents"), "alice bob")
	daemon.Equal(t, "a goal", r.Read("agents/bob/goals/now/a"), "for bob")
	daemon.Equal(t, "profiles", r.List("profiles"), "")
	d.SaysNo(nil, "no such file", "create", "eve", "--profile", dir+"/none")
}
