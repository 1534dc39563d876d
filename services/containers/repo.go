package containers

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// repo is what to clone before the first command.
type repo struct {
	URL    string    `json:"url"`
	Ref    string    `json:"ref"`    // branch, tag or commit; empty: what the repository has
	Subdir string    `json:"subdir"` // where commands run
	Depth  *int      `json:"depth"`  // commits; nil: 1, 0: all
	Auth   *repoAuth `json:"auth"`
}

// repoAuth names the secret that has the token, and never has it itself.
type repoAuth struct {
	Secret string `json:"secret"`
	User   string `json:"user"` // the name that goes with the token; empty: any
}

// gitProtocols are what git may speak; others run programs.
const gitProtocols = "file:git:http:https:ssh"

func (r *repo) check() error {
	bad := func(s string) bool { return strings.HasPrefix(s, "-") || strings.ContainsAny(s, "\x00\n\r") }
	switch {
	case r.URL == "" || bad(r.URL) || strings.Contains(r.URL, "::"):
		return fsys.E(fsys.Invalid, fmt.Sprintf("repo: %.80q is not the URL of a repository", r.URL))
	case bad(r.Ref):
		return fsys.E(fsys.Invalid, fmt.Sprintf("repo: %.80q is not a branch, a tag or a commit", r.Ref))
	case bad(r.Subdir) || path.IsAbs(r.Subdir) || strings.HasPrefix(path.Clean(r.Subdir)+"/", "../"):
		return fsys.E(fsys.Invalid, fmt.Sprintf("repo: subdir %.80q is not a directory in the repository", r.Subdir))
	case r.Depth != nil && (*r.Depth < 0 || *r.Depth > 1<<30):
		return fsys.E(fsys.Invalid, "repo: depth is a number of commits, or 0 for all")
	}
	u, err := url.Parse(r.URL)
	if err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return fsys.E(fsys.Invalid, "repo: a URL cannot have a password; put it in a secret, and name that in auth")
		}
	}
	if r.Auth == nil {
		return nil
	}
	switch {
	case r.Auth.Secret == "":
		return fsys.E(fsys.Invalid, `repo: auth names a secret, as in {"secret":"NAME"}`)
	case strings.ContainsAny(r.Auth.User, ":\x00\n"):
		return fsys.E(fsys.Invalid, "repo: the user of auth cannot have a colon")
	case err != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return fsys.E(fsys.Invalid, "repo: auth is for https only")
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsFunc(r.URL, oddInURL):
		return fsys.E(fsys.Invalid, "repo: with auth, a URL has letters, digits and -._~:/@+%[] only, so that everybody who reads it sees the same host")
	}
	return nil
}

func oddInURL(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~:/@+%[]", r))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// local reports whether the clone needs no network.
func (r *repo) local() bool {
	return strings.HasPrefix(r.URL, "file://") || !strings.Contains(r.URL, "://") && !strings.Contains(strings.SplitN(r.URL, "/", 2)[0], ":")
}

// isCommit reports whether ref is the whole name of a commit.
func (r *repo) isCommit() bool {
	return (len(r.Ref) == 40 || len(r.Ref) == 64) && strings.Trim(r.Ref, "0123456789abcdef") == ""
}

// dir is where the clone is, below the workspace: the last part of the URL.
func (r *repo) dir() string {
	name := strings.TrimSuffix(strings.TrimRight(r.URL, "/"), ".git")
	name = name[strings.LastIndexAny(name, "/:")+1:]
	if fsys.CheckName(name) != nil {
		return "repo"
	}
	return name
}

// workdir is where commands run that do not say.
func (r *repo) workdir() string { return path.Join(r.dir(), r.Subdir) }

// attempts are the ways to clone to dir, each a list of git's arguments: the
// second one is for servers that do not give out single commits. Bare leaves
// out the files that belong to the commit.
func (r *repo) attempts(dir string, bare bool) [][][]string {
	depth := []string{"--depth", "1"}
	if r.Depth != nil {
		if depth = nil; *r.Depth > 0 {
			depth = []string{"--depth", fmt.Sprint(*r.Depth)}
		}
	}
	if !r.isCommit() {
		args := append([]string{"clone", "--no-recurse-submodules"}, depth...)
		if bare {
			args = append(args, "--no-checkout")
		}
		if r.Ref != "" {
			args = append(args, "--branch", r.Ref)
		}
		return [][][]string{{append(args, "--", r.URL, dir)}}
	}
	in := func(args ...string) []string { return append([]string{"-C", dir}, args...) }
	checkout := in("checkout", "--quiet", "--detach", r.Ref)
	if bare {
		checkout = in("update-ref", "--no-deref", "HEAD", r.Ref+"^{commit}")
	}
	fetch := append([]string{"fetch", "--no-recurse-submodules"}, depth...)
	return [][][]string{
		{
			{"init", "--quiet", "--", dir},
			in("remote", "add", "--", "origin", r.URL),
			in(append(fetch, "--", "origin", r.Ref)...),
			checkout,
		},
		{
			in("fetch", "--no-recurse-submodules", "--tags", "--", "origin", "+refs/heads/*:refs/remotes/origin/*"),
			checkout,
		},
	}
}

// Clones calls found with every secret that a session in st, which got beyond
// its clone, was given for a repository, and with the URL of that.
func Clones(ctx context.Context, st store.Store, found func(secret, url string)) error {
	for p, err := range store.All(ctx, store.Forgiving(st), work.RecPrefix) {
		if err != nil {
			return err
		}
		rec, err := store.GetJSON[record](ctx, st, p.Key)
		if err != nil || rec.State != Done && len(rec.Results) == 0 && rec.Execs == 0 {
			continue // what cannot be read, fsck tells of
		}
		raw, err := st.Get(ctx, work.RequestKey(rec.Number))
		if err != nil || !bytes.Contains(raw, []byte(`"auth"`)) {
			continue
		}
		sub, err := parseSubmission(raw)
		if err != nil || sub.req.Repo == nil || sub.req.Repo.Auth == nil {
			continue
		}
		found(sub.req.Repo.Auth.Secret, sub.req.Repo.URL)
	}
	return nil
}
