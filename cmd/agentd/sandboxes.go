package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap"
	"agent9/providers/sandboxes/docker"
	unsafehost "agent9/providers/sandboxes/host"
	"agent9/services/host"
	"agent9/store"
)

// A yard is what --containers says of one provider of sandboxes.
type yard struct {
	id, target string
	dir        string // for what it keeps on this machine
	owner      string // tells this daemon apart from others
	uids       *uids
}

// yards make the provider that a yard is for.
var yards = map[string]func(yard) (sandboxes.Provider, error){
	"docker": func(y yard) (sandboxes.Provider, error) {
		return docker.New(docker.Config{Host: y.target, Owner: y.owner})
	},
	"bwrap": func(y yard) (sandboxes.Provider, error) {
		images, err := imageDirs(y.target)
		if err != nil {
			return nil, err
		}
		helper, err := localHelper()
		if err != nil {
			return nil, err
		}
		p, err := bwrap.New(bwrap.Config{Dir: y.dir, Helper: helper, Images: images, Users: y.uids})
		if err == nil {
			y.uids.has = append(y.uids.has, p.Has)
		}
		return p, err
	},
	unsafeHost: func(y yard) (sandboxes.Provider, error) {
		helper, err := localHelper()
		if err != nil {
			return nil, err
		}
		return unsafehost.New(unsafehost.Config{Dir: y.dir, Helper: helper})
	},
}

// unsafeHost is the driver, and the provider, of --unsafe-host-containers.
const unsafeHost = "unsafe-host"

func localHelper() (string, error) {
	h, err := sandboxes.FindHelper(runtime.GOOS, runtime.GOARCH)
	return h.Path, err
}

// imageDirs reads NAME=DIR,NAME=DIR.
func imageDirs(target string) (map[string]string, error) {
	dirs := map[string]string{}
	for _, one := range strings.FieldsFunc(target, func(r rune) bool { return r == ',' }) {
		name, dir, ok := strings.Cut(one, "=")
		if !ok || name == "" || !filepath.IsAbs(dir) {
			return nil, fsys.E(fsys.Invalid, "want NAME=DIR, the absolute path of a root file system, not "+one)
		}
		dirs[name] = dir
	}
	return dirs, nil
}

// sandboxProviders returns the providers of sandboxes: those that were named, else
// docker if its engine answers, else bubblewrap if that works, else none.
func sandboxProviders(ctx context.Context, s settings, db store.Updater, log *slog.Logger) ([]*sandboxes.Runner, error) {
	owner, err := ownerOf(ctx, db)
	if err != nil {
		return nil, err
	}
	users := &uids{db: db, size: blockSize, known: host.Known}
	specs := s.containers
	if s.unsafeHost {
		specs = append(slices.Clip(specs), unsafeHost+"="+unsafeHost+":")
	}
	var all []*sandboxes.Runner
	for _, spec := range specs {
		r, err := sandboxProvider(spec, s.data, owner, users)
		if err != nil {
			return nil, usage(err)
		}
		if slices.ContainsFunc(all, func(o *sandboxes.Runner) bool { return o.ID() == r.ID() }) {
			return nil, usage(fsys.E(fsys.Invalid, "--containers: two providers are called "+r.ID()))
		}
		all = append(all, r)
	}
	if len(specs) > 0 {
		return all, nil
	}
	var why []any
	for _, spec := range []string{"docker=docker:", "bwrap=bwrap:"} {
		r, err := sandboxProvider(spec, s.data, owner, users)
		if err == nil {
			err = answersNow(ctx, r)
		}
		if err == nil {
			return []*sandboxes.Runner{r}, nil
		}
		why = append(why, strings.TrimSuffix(spec[strings.Index(spec, "=")+1:], ":"), cmp.Or(fsys.ReasonOf(err), err.Error()))
	}
	log.Warn("nothing here makes sandboxes: what agents run, but for their programs, is refused", why...)
	return nil, nil
}

// sandboxProvider makes a provider of ID=DRIVER:TARGET.
func sandboxProvider(spec, data, owner string, users *uids) (*sandboxes.Runner, error) {
	id, rest, ok := strings.Cut(spec, "=")
	driver, target, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || fsys.CheckName(id) != nil {
		return nil, fsys.E(fsys.Invalid, "--containers "+spec+": want ID=DRIVER:TARGET, as in local=bwrap: or docker=docker:")
	}
	make := yards[driver]
	if make == nil || driver == unsafeHost && id != unsafeHost {
		drivers := slices.DeleteFunc(slices.Sorted(maps.Keys(yards)), func(d string) bool { return d == unsafeHost })
		return nil, fsys.E(fsys.Invalid, "--containers "+spec+": no driver is called "+driver+"; there are "+strings.Join(drivers, ", "))
	}
	p, err := make(yard{id: id, target: target, dir: filepath.Join(data, "containers", id), owner: owner, uids: users})
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "--containers "+spec, err)
	}
	return sandboxes.NewRunner(id, p), nil
}

// answersNow reports why r cannot be used now, if so.
func answersNow(ctx context.Context, r *sandboxes.Runner) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := r.Info(ctx)
	return err
}

// ownerOf returns what tells the daemon of db apart from others on the same
// engine.
func ownerOf(ctx context.Context, db store.Updater) (string, error) {
	const key = "containers/owner"
	owner, err := db.Get(ctx, key)
	if err == nil || !errors.Is(err, fsys.NotExist) {
		return string(owner), err
	}
	owner = []byte(strings.ToLower(rand.Text()[:16]))
	return string(owner), db.Put(ctx, key, owner)
}
