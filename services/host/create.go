package host

import (
	"context"
	"errors"
	"path"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/agent"
	"agent9/services/profiles"
	"agent9/store"
)

// createLimit is how long a request for an agent can be, with the files of a
// profile that is not kept here.
const createLimit = 16 << 20

// createAgent is the file create: {name, profile | files, set}. The reply is
// the agent's name.
func (h *Host) createAgent(ctx context.Context, req []byte) ([]byte, error) {
	if len(req) == 0 || req[0] != '{' {
		req = fsys.Line(profiles.Request{Name: strings.TrimSpace(string(req))})
	}
	r, err := profiles.ParseRequest(req)
	if err != nil {
		return nil, err
	}
	return []byte(r.Name + "\n"), h.make(ctx, r)
}

// createWords is the command create NAME [PROFILE [KEY=VALUE]...].
func (h *Host) createWords(ctx context.Context, args []string) ([]byte, error) {
	if err := h.mayMake(ctx); err != nil {
		return nil, err
	}
	r := profiles.Request{Name: args[0]}
	if len(args) > 1 {
		r.Profile = args[1]
		var err error
		if r.Set, err = profiles.ParseSet(args[2:]); err != nil {
			return nil, err
		}
	}
	return nil, h.make(ctx, r)
}

func (h *Host) make(ctx context.Context, r profiles.Request) error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.Profile == "" && r.Files == nil && len(r.Set) == 0 {
		_, err := h.agents.Mkdir(ctx, r.Name, 0)
		return err
	}
	files, what := r.List(), "the profile"
	if r.Files == nil {
		if r.Profile == "" {
			r.Profile = profiles.Default
		}
		what = "profile " + r.Profile
		var err error
		if files, err = h.profiles.Files(ctx, r.Profile); err != nil {
			return err
		}
	}
	_, err := h.agents.from(ctx, r.Name, what, files, r.Set)
	return err
}

// byDefault makes an agent of the default profile, if there is one.
func (h *Host) byDefault(ctx context.Context, name string) (e entry, made bool, err error) {
	if ok, err := h.profiles.Exists(ctx, profiles.Default); err != nil || !ok {
		return e, false, err
	}
	files, err := h.profiles.Files(ctx, profiles.Default)
	if err == nil {
		e, err = h.agents.from(ctx, name, "profile "+profiles.Default, files, nil)
	}
	return e, err == nil, err
}

// from makes an agent whose files are those of a profile: all of it, or none.
func (s *agents) from(ctx context.Context, name, what string, all []profiles.File, set map[string]string) (entry, error) {
	files, err := profiles.Render(all, name, set)
	if err != nil {
		return entry{}, fsys.Wrap(fsys.Invalid, what, err)
	}
	e, err := s.stage(ctx, name, func(e entry) (string, error) {
		if err := s.furnish(ctx, e, name, files); err != nil {
			return "", fsys.Wrap(fsys.Invalid, what, err)
		}
		return budget.Adopt(ctx, store.Sub(s.st, e.part()+agent.BudgetPart))
	})
	if err == nil {
		s.house.Happened(name, happened(s.house.Now(), "agent.created"))
	}
	return e, err
}

// furnish makes an agent that nobody sees yet, and writes its files as the
// operator would.
func (s *agents) furnish(ctx context.Context, e entry, name string, files []profiles.File) error {
	st := store.Sub(s.st, e.part())
	err := st.Update(ctx, func(tx store.Store) error { return agent.Create(ctx, tx, st, s.house, name) })
	if err != nil {
		return err
	}
	quiet := *s.house
	quiet.Happened = func(string, []byte) {}
	quiet.Moved = func(context.Context, store.Store, string, string, string) error { return nil } // when it is published
	a, err := agent.Open(ctx, st, &quiet, name, e.text())
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := put(ctx, a.Operator(), f); err != nil {
			return errors.Join(fsys.Wrap(fsys.Invalid, f.Path, err), a.Close(ctx))
		}
	}
	return a.Close(ctx)
}

// put writes one file of a profile.
func put(ctx context.Context, root fsys.Node, f profiles.File) error {
	dir := root
	for name := range strings.SplitSeq(path.Dir(f.Path), "/") {
		if name == "." {
			continue
		}
		next, err := fsys.Walk(ctx, dir, name)
		if errors.Is(err, fsys.NotExist) {
			next, err = fsys.Mkdir(ctx, dir, name, 0o755)
		}
		if err != nil {
			return err
		}
		dir = next
	}
	if n, err := fsys.Walk(ctx, dir, path.Base(f.Path)); err == nil {
		if err := settable(ctx, n); err != nil {
			return err
		}
	}
	n, h, err := fsys.OpenCreate(ctx, dir, path.Base(f.Path), 0o644, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	if err = settable(ctx, n); err == nil {
		_, err = fsys.WriteAt(ctx, h, f.Data, 0)
	}
	if err != nil {
		h.Close()
		return err
	}
	return fsys.Finish(ctx, h)
}

// settable refuses what is not a file that keeps what is written.
func settable(ctx context.Context, n fsys.Node) error {
	info, err := n.Stat(ctx)
	if err == nil && info.Kind != fsys.File {
		err = fsys.E(fsys.Invalid, "it does not keep what is written to it, so it cannot be in a profile")
	}
	return err
}
