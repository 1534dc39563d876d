package tokens

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
)

func TestRightsAt(t *testing.T) {
	for _, c := range []struct{ rights, path, want string }{
		{"rw", "/", "rw"},
		{"rw", "/inbox/new", "rw"},
		{"r", "/inbox", "r"},
		{"w", "/inbox", "w"},
		{"r,/inbox:rw", "/inbox", "rw"},
		{"r,/inbox:rw", "/inbox/new", "rw"},
		{"r,/inbox:rw", "/inboxes", "r"},
		{"r,/inbox:rw", "/status", "r"},
		{"r,/inbox:rw", "/", "r"},
		{"/inbox:rw", "/inbox/", "rw"},
		{"/inbox:rw", "/", ""},
		{"/inbox:rw", "/goals", ""},
		{"/inbox:w", "/inbox/new", "w"},
		{"rw,/identity:-", "/identity/sign", ""},
		{"rw,/identity:-", "/goals", "rw"},
		{"rw,/compute:r,/compute/jobs:-,/compute/jobs/7:rw", "/compute/jobs/7/ctl", "rw"},
		{"rw,/compute:r,/compute/jobs:-,/compute/jobs/7:rw", "/compute/jobs/8", ""},
		{"rw,/compute:r,/compute/jobs:-,/compute/jobs/7:rw", "/compute/new", "r"},
		{"rw,/compute:r,/compute/jobs:-,/compute/jobs/7:rw", "/compute", "r"},
	} {
		r := parse(t, c.rights)
		read, write := r.At(c.path)
		got := strings.TrimPrefix(rule{read: read, write: write}.String(), "-")
		if got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.rights, c.path, got, c.want)
		}
	}
	if read, write := (Rights{}).At("/"); read || write {
		t.Error("the zero value allows something")
	}
}

func TestRightsPaths(t *testing.T) {
	if got := strings.Join(parse(t, "rw,/inbox/:w,/identity/sign:-").Paths(), " "); got != "/identity/sign /inbox" {
		t.Errorf("paths %s", got)
	}
}

func TestRightsText(t *testing.T) {
	for in, want := range map[string]string{
		"rw": "rw", "w": "w", "/:r": "r", " r , /inbox:rw ": "r,/inbox:rw", "/inbox/:rw,r": "r,/inbox:rw",
		"/b:r,/a:w,rw": "rw,/a:w,/b:r", "-,/a:r": "-,/a:r", "/a:b:r": "/a:b:r",
	} {
		r := parse(t, in)
		if r.String() != want {
			t.Errorf("%q is %q, want %q", in, r, want)
		}
		b, err := json.Marshal(map[string]Rights{"rights": r})
		if err != nil || string(b) != `{"rights":"`+want+`"}` {
			t.Errorf("JSON %s, %v", b, err)
		}
		var back map[string]Rights
		if err := json.Unmarshal(b, &back); err != nil || back["rights"].String() != want {
			t.Errorf("%s comes back as %q, %v", b, back["rights"], err)
		}
	}
}

func TestRightsRefusals(t *testing.T) {
	for in, want := range map[string]string{
		"":                   `"" is not a part of them`,
		"x":                  `"x" is not a part of them`,
		"wr":                 `"wr" is not a part of them`,
		"rw,":                `"" is not a part of them`,
		"/inbox":             `"/inbox" is not a part of them`,
		"inbox:rw":           `"inbox" is not the path of a mount`,
		":rw":                `"" is not the path of a mount`,
		"//inbox:rw":         `"//inbox" is not the path of a mount`,
		"/inbox/../x:rw":     `"/inbox/../x" is not the path of a mount`,
		"/inbox//:rw":        `"/inbox//" is not the path of a mount`,
		"r,rw":               "there are two parts for the whole tree",
		"r,/:rw":             "there are two parts for the whole tree",
		"/inbox:r,/inbox/:r": "there are two parts for /inbox",
		"-":                  "they would open nothing",
		"/inbox:-":           "they would open nothing",
	} {
		_, err := ParseRights(in)
		if fsys.CodeOf(err) != fsys.Invalid || !strings.HasPrefix(fsys.ReasonOf(err), "rights: "+want) {
			t.Errorf("%q: %v, want %v: rights: %s…", in, err, fsys.Invalid, want)
		}
	}
}

func parse(t *testing.T, s string) Rights {
	t.Helper()
	r, err := ParseRights(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"": now.Add(24 * time.Hour), "24h": now.Add(24 * time.Hour), "7d": now.AddDate(0, 0, 7), "2w": now.AddDate(0, 0, 14),
		"1h30m": now.Add(90 * time.Minute), "never": {}, "36500d": now.Add(36500 * day),
		"2026-03-01T14:00:00+01:00": now.Add(time.Hour), "2030-01-31T12:00:00.5Z": time.Date(2030, 1, 31, 12, 0, 0, 5e8, time.UTC),
	} {
		got, err := ParseExpiry(in, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"soon": "is neither", "7": "is neither", "-7d": "is neither", "1d12h": "is neither", "d": "is neither", "2030-01-31": "is neither",
		"0d": "is not in the future", "0s": "is not in the future", "-1h": "is not in the future", "2026-03-01T12:00:00Z": "is not in the future",
		"2020-01-01T00:00:00Z": "is not in the future",
		"36501d":               "more than 100 years", "4294967295w": "more than 100 years", "9000-01-01T00:00:00Z": "more than 100 years",
	} {
		_, err := ParseExpiry(in, now)
		if fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(fsys.ReasonOf(err), want) {
			t.Errorf("%q: %v, want %v: …%s…", in, err, fsys.Invalid, want)
		}
	}
}
