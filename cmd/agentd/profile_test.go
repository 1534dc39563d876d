package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys"
)

func TestProfiles(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("accounts", "team")
	r.mkdir("profiles", "support")
	for _, dir := range []string{"budget", "goals", "skills"} {
		r.mkdir("profiles/support", dir)
	}
	r.make("profiles/support", "README", "For those who help. {{NOT_A_VARIABLE}}\n")
	r.make("profiles/support", "config", `{"accept":["{{PEER}}"],"inbox":{"limit":{{LIMIT}}}}`)
	r.make("profiles/support/budget", "limits", `{"total_microusd":9,"parent":"team"}`)
	r.make("profiles/support/goals", "help", "{{NAME}} helps {{PEER}}.\n")
	r.make("profiles/support/skills", "help.md", "---\nname: help\ndescription: {{TONE}}\n---\n")

	d.saysNo(nil, "alice: profile support: config needs {{PEER}}, config needs {{LIMIT}}, goals/help needs {{PEER}}, skills/help.md needs {{TONE}}, which is not set",
		"create", "alice", "--profile", "support")
	d.saysNo(nil, "the variable MODEL is set, and no file has {{MODEL}}",
		"create", "alice", "--profile", "support", "--set", "PEER=b", "--set", "LIMIT=1", "--set", "TONE=x", "--set", "MODEL=m")
	d.saysNo(nil, "profile support: config: inbox.limit must be from 1 to 1048576",
		"create", "alice", "--profile", "support", "--set", "PEER=b", "--set", "LIMIT=99999999", "--set", "TONE=x")
	d.saysNo(nil, "there is no profile nothing; mkdir profiles/nothing makes one", "create", "alice", "--profile", "nothing")
	equal(t, "agents", r.list("agents"), "")
	equal(t, "what is under team", r.tryRemove("accounts/team") == nil, true)
	d.saysNo(nil, "none", "create", "--profile", "support", "--set", "PEER=b", "--set", "LIMIT=1", "--set", "TONE=x", "none")
	r.mkdir("accounts", "team")

	d.mustCtl(nil, "create", "alice", "--profile", "support", "--set", `PEER=b","x`, "--set", "LIMIT=7", "--set", "TONE=short, kind")
	equal(t, "config", r.read("agents/alice/config"), `{"accept":["b\",\"x"],"inbox":{"limit":7}}`+"\n")
	equal(t, "a goal", r.read("agents/alice/goals/help"), `alice helps b","x.`+"\n")
	has(t, "a skill", r.read("agents/alice/skills/help.md"), "description: short, kind\n")
	has(t, "limits", r.read("agents/alice/budget/limits"), `"total_microusd":9`, `"parent":"team"`)
	refused(t, "rmdir of the account", r.tryRemove("accounts/team"), fsys.Busy, "agents/alice has this account above it")
	equal(t, "README", strings.Contains(r.read("agents/alice/README"), "For those"), false)

	r.write("ctl", "create bob support PEER=alice LIMIT=5 TONE=kind\n")
	equal(t, "a goal", r.read("agents/bob/goals/help"), "bob helps alice.\n")
	refused(t, "one that there is", r.tryWrite("ctl", "create bob support PEER=alice LIMIT=5 TONE=kind\n"), fsys.Exist)
	refused(t, "a bad variable", r.tryWrite("ctl", "create eve support peer=alice\n"), fsys.Invalid, "KEY is made of capital letters")

	// The one called default is for every mkdir.
	r.mkdir("profiles", "default")
	r.make("profiles/default", "config", `{"accept":["{{NAME}}-*"]}`)
	r.mkdir("agents", "carol")
	equal(t, "config", r.read("agents/carol/config"), `{"accept":["carol-*"]}`+"\n")
	r.make("profiles/default", "goal", "x")
	refused(t, "mkdir with a file that has no place", r.tryMkdir("agents", "dave"), fsys.Permission, "profile default: goal:")
	r.remove("profiles/default/goal")
	r.mkdir("profiles/default", "inbox")
	r.make("profiles/default/inbox", "new", "x")
	refused(t, "mkdir with a message", r.tryMkdir("agents", "dave"), fsys.Invalid, "inbox/new: it does not keep what is written to it")

	d.kill()
	equal(t, "what is left of the account that was removed, and of nothing else", strings.Join(stored(t, d, "trash/"), " "), "trash/1")
	d.start()
	r = d.root()
	equal(t, "agents", r.list("agents"), "alice bob carol")
}

func TestLocalProfile(t *testing.T) {
	d := startDaemon(t)
	dir := t.TempDir()
	for path, text := range map[string]string{"config": `{"accept":["{{PEER}}"]}`, "goals/now/a": "for {{NAME}}", ".git/x": "\xff", "README.md": "{{X}}"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.saysNo(nil, "alice: the profile: config needs {{PEER}}, which is not set", "create", "alice", "--profile", dir)
	d.mustCtl(nil, "create", "alice", "bob", "--profile", dir, "--set", "PEER=x")
	r := d.root()
	equal(t, "agents", r.list("agents"), "alice bob")
	equal(t, "a goal", r.read("agents/bob/goals/now/a"), "for bob")
	equal(t, "profiles", r.list("profiles"), "")
	d.saysNo(nil, "no such file", "create", "eve", "--profile", dir+"/none")
}
