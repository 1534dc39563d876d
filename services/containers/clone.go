package containers

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strconv"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// clone makes the repository in the sandbox.
func (w *session) clone(ctx context.Context) error {
	r := w.plan.req.Repo
	if r.Auth != nil {
		return w.explained(w.cloneApart(ctx, r))
	}
	env := []string{"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=" + gitProtocols, "GIT_TEMPLATE_DIR=", "GIT_ASKPASS="}
	return w.explained(w.try(ctx, r.attempts(r.dir(), false), process{cmd: sandboxes.Command{Env: env}}))
}

// explained says of a clone that failed what may be missing.
func (w *session) explained(err error) error {
	if err != nil && w.Ctx.Err() == nil && !w.plan.req.Repo.local() && !w.plan.network {
		return fsys.Wrap(fsys.Unavailable, `the session has no network, so that only a path or file:// can be cloned; ask for it with "limits":{"network":true}`, err)
	}
	return err
}

// ofClone ends the name of the sandbox in which git has a secret.
const ofClone = ".clone"

// cloneApart clones with a secret: in a sandbox of its own, which has no file
// and no process of the agent's, and without the agent's say in how git works.
// The session's sandbox gets only what came of it, as files below .git.
func (w *session) cloneApart(ctx context.Context, r *repo) error {
	env, err := r.apart(w.secrets.token)
	clear(w.secrets.token)
	if err != nil {
		return err
	}
	spec := sandboxes.Spec{
		Name: SandboxName(w.s.config.Owner, w.N) + ofClone, Agent: w.s.config.Owner,
		Image: w.plan.gitImage, Pull: w.plan.policy.pulls() || w.plan.policy.Pull && w.plan.policy.GitImage != "",
		Limits: w.plan.spec,
	}
	box, err := w.plan.runner.Create(ctx, w.Holds()[0], spec, func(line string) { w.output.say(line) })
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the clone failed: a sandbox for git", err)
	}
	err = w.try(ctx, r.attempts(cloned, true), process{box: box, cmd: sandboxes.Command{Env: env, Bare: true}})
	if err == nil {
		err = w.takeOver(ctx, box, r)
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if failed := box.Remove(undo); err == nil {
		err = failed
	}
	return err
}

// cloned is the directory of the clone in a sandbox of its own.
const cloned = "repo"

// apart is all of the environment of a git that has the token: what it obeys,
// and nothing that anybody else says. The token is sent to the repository's
// server only, and to nobody that this one sends git on to.
func (r *repo) apart(token []byte) ([]string, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "repo: the URL", err)
	}
	user := r.Auth.User
	if user == "" {
		user = "x-access-token"
	}
	coded := base64.StdEncoding.EncodeToString(append([]byte(user+":"), token...))
	const nowhere = "/nonexistent"
	env := []string{
		"HOME=" + nowhere, "XDG_CONFIG_HOME=" + nowhere, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TEMPLATE_DIR=", "GIT_ALLOW_PROTOCOL=" + u.Scheme, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=",
	}
	settings := [][2]string{
		{"http." + u.Scheme + "://" + u.Host + "/.extraHeader", "Authorization: Basic " + coded},
		{"http.followRedirects", "false"},
		{"credential.helper", ""},
		{"core.fsmonitor", "false"},
		{"submodule.recurse", "false"},
		{"transfer.unpackLimit", "1"}, // a pack stays one file
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env, nil
}

// takeOver copies a clone from box to the session's sandbox, and writes its
// files there.
func (w *session) takeOver(ctx context.Context, box *sandboxes.Box, r *repo) error {
	from, err := place(ctx, box, path.Join(cloned, ".git"), false)
	if err != nil {
		return err
	}
	to, err := place(ctx, w.box, r.dir(), true)
	if err != nil {
		return err
	}
	switch there, err := fsys.List(ctx, to); {
	case err != nil:
		return err
	case len(there) > 0:
		return fsys.E(fsys.Exist, "the clone failed: there is something in "+r.dir()+" in the workspace already")
	}
	if to, err = fsys.Mkdir(ctx, to, ".git", 0o755); err != nil {
		return err
	}
	if err := copyTree(ctx, from, to, maxDepth); err != nil {
		return fsys.Wrap(fsys.Unavailable, "the clone failed: taking it over", err)
	}
	return w.git(ctx, []string{"-C", r.dir(), "reset", "--quiet", "--hard"}, process{})
}

// place is the directory at name in the workspace of box; it can be made.
func place(ctx context.Context, box *sandboxes.Box, name string, made bool) (fsys.Node, error) {
	below, ok := box.Where().Path(name)
	if !ok {
		return nil, fsys.E(fsys.Internal, "the sandbox does not show its workspace")
	}
	root, err := box.Files(ctx)
	if err != nil {
		return nil, err
	}
	if made {
		return makeAll(ctx, root, below)
	}
	return fsys.WalkPath(ctx, root, below)
}

// maxDepth is how deep the directories below a .git may be.
const maxDepth = 64

// copyTree copies what is in the directory from to the directory to.
func copyTree(ctx context.Context, from, to fsys.Node, depth int) error {
	if depth == 0 {
		return fsys.E(fsys.TooLarge, "its directories are too deep")
	}
	entries, err := fsys.List(ctx, from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := fsys.Walk(ctx, from, e.Name)
		if err != nil {
			return err
		}
		info, err := n.Stat(ctx)
		if err != nil {
			return err
		}
		if info.Kind != fsys.Directory {
			err = copyFile(ctx, n, to, e.Name)
		} else if dir, failed := fsys.Mkdir(ctx, to, e.Name, 0o755); failed != nil {
			err = failed
		} else {
			err = copyTree(ctx, n, dir, depth-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(ctx context.Context, from, to fsys.Node, name string) error {
	in, err := from.Open(ctx, fsys.Read)
	if err != nil {
		return err
	}
	defer in.Close()
	_, out, err := fsys.OpenCreate(ctx, to, name, 0o644, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, in, buf, off)
		for p := buf[:n]; len(p) > 0; {
			m, failed := fsys.WriteAt(ctx, out, p, off)
			if failed != nil {
				out.Close()
				return failed
			}
			p, off = p[m:], off+int64(m)
		}
		switch {
		case fsys.IsEOF(err) || err == nil && n == 0:
			return fsys.Finish(ctx, out)
		case err != nil:
			out.Close()
			return err
		}
	}
}

// try clones in each of ways, until one of them works: with each of its
// arguments for git, as p, one after the other.
func (w *session) try(ctx context.Context, ways [][][]string, p process) (failed error) {
	for _, way := range ways {
		for _, args := range way {
			if failed = w.git(ctx, args, p); failed != nil {
				break
			}
		}
		if failed == nil || ctx.Err() != nil {
			return failed
		}
	}
	return failed
}

// git runs git with args, as p.
func (w *session) git(ctx context.Context, args []string, p process) error {
	p.cmd.Argv = append([]string{"git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"}, args...)
	p.cmd.Timeout = seconds(w.plan.limits.Time)
	p.out, p.alike = w.output, said // none of it is a command's
	o, err := w.perform(ctx, &p)
	switch {
	case err != nil:
		return err
	case o.ExitCode == 127:
		return fsys.E(fsys.Unavailable, "the clone failed: there is no git in the image")
	case o.ExitCode != 0:
		return fsys.E(fsys.Unavailable, fmt.Sprintf("the clone failed: git %s exited with %d; see output", verbOf(args), o.ExitCode))
	}
	return nil
}

func verbOf(args []string) string {
	if args[0] == "-C" {
		return args[2]
	}
	return args[0]
}
