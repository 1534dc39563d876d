package scrub

// A Stream takes secrets out of text that comes in pieces, wherever these end.
// It holds back no more than the longest form of a secret, with line breaks and
// each byte of it as an escape.
type Stream struct {
	s      *Scrubber
	at     int32
	held   []solid // the last of what came: it may be the beginning of a secret
	breaks []byte  // that came since
	count  int64   // of solids that came
	spans  []span  // of secrets among what is held, in order and apart
	seen   bool    // what was released last was of a secret
	keep   int     // how many of the last solids may be of a secret

	readings [len(escapes)]reading
}

// A solid is a byte that is no line break, and the line breaks before it.
type solid struct {
	by     byte
	breaks [maxBreaks]byte // 0: none
}

// A span is from which solid to which other one, which is not of it, a secret
// goes.
type span struct{ from, to int64 }

// Stream begins one. That of the nil Scrubber lets everything pass.
func (s *Scrubber) Stream() *Stream {
	t := &Stream{s: s}
	for i, e := range escapes {
		t.readings[i].escape = e
	}
	return t
}

const (
	// maxBreaks is how many line breaks may follow one another in a secret.
	maxBreaks = 2
	// unheld is how much of the beginning of a secret is not held back at the
	// end of a piece: a person waits for the last of it, such as a prompt.
	unheld = 2
)

// Next takes a piece of the text, and returns what of it, and of what came
// before, can be shown by now.
func (t *Stream) Next(p []byte) []byte {
	if t.s == nil {
		return p
	}
	out := make([]byte, 0, len(p)+len(t.held))
	for _, c := range p {
		if c == '\n' || c == '\r' {
			out = t.lineBreak(out, c)
		} else {
			out = t.solid(out, c)
		}
	}
	if t.keep <= unheld {
		out = t.release(out, 0)
	}
	return out
}

// End returns what was held back, and begins anew.
func (t *Stream) End() []byte {
	if t.s == nil {
		return nil
	}
	return t.rest(nil)
}

// rest releases all that is held, and begins anew.
func (t *Stream) rest(out []byte) []byte {
	for i := range t.readings {
		if r := &t.readings[i]; r.apart {
			r.decode(t, true)
			r.apart = false
		}
	}
	out = t.release(out, 0)
	t.at, t.keep, t.seen = 0, 0, false
	return out
}

func (t *Stream) lineBreak(out []byte, c byte) []byte {
	if t.keep != 0 && len(t.breaks) < maxBreaks {
		t.breaks = append(t.breaks, c)
		return out
	}
	return append(t.rest(out), c)
}

func (t *Stream) solid(out []byte, c byte) []byte {
	before := t.at
	t.at = t.s.step(before, c)
	n := &t.s.nodes[t.at]
	t.count, t.keep = t.count+1, int(n.depth)
	if n.longest > 0 {
		t.hide(span{t.count - int64(n.longest), t.count})
	}
	for i := range t.readings {
		if r := &t.readings[i]; r.apart || c == r.intro {
			r.next(t, before, c)
			if r.apart {
				t.keep = max(t.keep, int(r.held(t)))
			}
		}
	}
	if t.keep == 0 && len(t.held) == 0 {
		t.seen = false
		return append(out, c)
	}
	b := solid{by: c}
	copy(b.breaks[:], t.breaks)
	t.held, t.breaks = append(t.held, b), t.breaks[:0]
	return t.release(out, t.keep)
}

// hide notes a secret that ends with what came last, or was decided last.
func (t *Stream) hide(new span) {
	for n := len(t.spans); n > 0 && t.spans[n-1].to >= new.from; n-- {
		last := t.spans[n-1]
		new = span{min(new.from, last.from), max(new.to, last.to)}
		t.spans = t.spans[:n-1]
	}
	t.spans = append(t.spans, new)
}

// release lets go of all but the last keep solids.
func (t *Stream) release(out []byte, keep int) []byte {
	n := max(len(t.held)-keep, 0)
	first := t.count - int64(len(t.held))
	for i, b := range t.held[:n] {
		at := first + int64(i)
		for len(t.spans) > 0 && t.spans[0].to <= at {
			t.spans = t.spans[1:]
		}
		hidden := len(t.spans) > 0 && t.spans[0].from <= at
		if !(hidden && t.seen) {
			for _, c := range b.breaks {
				if c != 0 {
					out = append(out, c)
				}
			}
		}
		switch {
		case !hidden:
			out = append(out, b.by)
		case !t.seen:
			out = append(out, Mark...)
		}
		t.seen = hidden
	}
	t.held = t.held[n:]
	if keep == 0 {
		out = append(out, t.breaks...)
		t.breaks = t.breaks[:0]
	}
	return out
}
