package containers

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"

	"agent9/fsys"
	provider "agent9/providers/containers"
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
	}
	return nil
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

// attempts are the ways to clone, each a list of git's arguments: the second
// one is for servers that do not give out single commits.
func (r *repo) attempts() [][][]string {
	dir := r.dir()
	depth := []string{"--depth", "1"}
	if r.Depth != nil {
		if depth = nil; *r.Depth > 0 {
			depth = []string{"--depth", fmt.Sprint(*r.Depth)}
		}
	}
	if !r.isCommit() {
		args := append([]string{"clone", "--no-recurse-submodules"}, depth...)
		if r.Ref != "" {
			args = append(args, "--branch", r.Ref)
		}
		return [][][]string{{append(args, "--", r.URL, dir)}}
	}
	in := func(args ...string) []string { return append([]string{"-C", dir}, args...) }
	checkout := in("checkout", "--quiet", "--detach", r.Ref)
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

// clone makes the repository in the sandbox.
func (w *session) clone(ctx context.Context) error {
	r := w.plan.req.Repo
	env, scrub, err := w.gitEnv(ctx, r)
	if err != nil {
		return err
	}
	var failed error
	for _, ways := range r.attempts() {
		if failed = w.git(ctx, ways, env, scrub); failed == nil || ctx.Err() != nil {
			return failed
		}
	}
	if !r.local() && !w.plan.network {
		return fsys.Wrap(fsys.Unavailable, `the session has no network, so that only a path or file:// can be cloned; ask for it with "limits":{"network":true}`, failed)
	}
	return failed
}

// git runs git with each of args, one after the other.
func (w *session) git(ctx context.Context, args [][]string, env []string, scrub func([]byte) []byte) error {
	for _, a := range args {
		p := &process{
			cmd: provider.Command{
				Argv:    append([]string{"git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"}, a...),
				Env:     env,
				Timeout: seconds(w.plan.limits.Time),
			},
			out:   w.output,
			alike: said, // none of it is a command's
			scrub: scrub,
		}
		o, err := w.perform(ctx, p)
		switch {
		case err != nil:
			return err
		case o.ExitCode == 127:
			return fsys.E(fsys.Unavailable, "the clone failed: there is no git in the image")
		case o.ExitCode != 0:
			return fsys.E(fsys.Unavailable, fmt.Sprintf("the clone failed: git %s exited with %d; see output", verbOf(a), o.ExitCode))
		}
	}
	return nil
}

func verbOf(args []string) string {
	if args[0] == "-C" {
		return args[2]
	}
	return args[0]
}

// gitEnv is the environment of git, the only place where the token is, and
// what takes that out of text.
func (w *session) gitEnv(ctx context.Context, r *repo) (env []string, scrub func([]byte) []byte, err error) {
	env = []string{"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=" + gitProtocols, "GIT_TEMPLATE_DIR=", "GIT_ASKPASS="}
	if r.Auth == nil {
		return env, nil, nil
	}
	if w.s.config.Secret == nil {
		return nil, nil, fsys.E(fsys.Unsupported, "repo: there are no secrets here")
	}
	secret, err := w.s.config.Secret(ctx, r.Auth.Secret)
	if err != nil {
		return nil, nil, fsys.Wrap(fsys.Unavailable, "repo: the secret "+r.Auth.Secret, err)
	}
	token := strings.TrimSpace(string(secret))
	user := r.Auth.User
	if user == "" {
		user = "x-access-token"
	}
	coded := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	u, err := url.Parse(r.URL)
	if err != nil || token == "" || strings.ContainsAny(token, "\n\x00") {
		return nil, nil, fsys.E(fsys.Invalid, "repo: the secret "+r.Auth.Secret+" is not a token")
	}
	env = append(env,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=http."+u.Scheme+"://"+u.Host+"/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Basic "+coded,
	)
	hide := strings.NewReplacer(token, "***", coded, "***")
	return env, func(p []byte) []byte { return []byte(hide.Replace(string(p))) }, nil
}
