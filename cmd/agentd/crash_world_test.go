package main

import (
	"fmt"
	"maps"
	"strings"

	"agent9/fsys"
)

// A world is what a model says there is, by name.
type world map[string]string

// A history is a world that changes, step by step, as one client at a time
// changes it.
type history struct {
	now world // as was acknowledged last
	// next are the worlds that there may be instead, as nobody knows how far
	// the last change came.
	next []world
	log  []string // of what was done since the last look
}

// do makes a change: steps change a world one after another, and act asks for
// all of them at once. What is refused for being busy changes nothing.
func (h *history) do(act func() error, steps ...func(w world)) error {
	h.next = nil
	w := h.now
	for _, step := range steps {
		w = maps.Clone(w)
		if w == nil {
			w = world{}
		}
		step(w)
		h.next = append(h.next, w)
	}
	err := act()
	h.log = append(h.log, fmt.Sprintf("%s: %v", difference(w, h.now), err))
	switch {
	case err == nil && len(h.next) > 0:
		h.now, h.next = w, nil
	case fsys.CodeOf(err) == fsys.Busy:
		h.next = nil
	}
	return err
}

// is checks that the world is as it was acknowledged, or as it was about to
// become, and takes it as it is.
func (h *history) is(p *promised, what string, got world) {
	p.Helper()
	ok := maps.Equal(got, h.now)
	for _, w := range h.next {
		ok = ok || maps.Equal(got, w)
	}
	if !ok {
		p.Errorf("%s: what there is differs from what was acknowledged:%s", what, difference(got, h.now))
		for i, w := range h.next {
			p.Errorf("… and from step %d of what was not:%s", i+1, difference(got, w))
		}
		p.Logf("what was done:%s", strings.Join(h.log, ""))
	}
	h.now, h.next, h.log = got, nil, nil
}

func difference(got, want world) (text string) {
	for name, v := range got {
		if w, ok := want[name]; !ok {
			text += "\n+ " + name + " = " + v
		} else if v != w {
			text += "\n! " + name + " = " + v + ", not " + w
		}
	}
	for name, v := range want {
		if _, ok := got[name]; !ok {
			text += "\n- " + name + " = " + v
		}
	}
	return text
}

// put, cut and move are steps.
func put(name, value string) func(world) { return func(w world) { w[name] = value } }
func cut(name string) func(world)        { return func(w world) { delete(w, name) } }

func move(name, to string) func(world) {
	return func(w world) {
		w[to] = w[name]
		delete(w, name)
	}
}
