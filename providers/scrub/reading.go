package scrub

// A reading looks for secrets in the text as it is when the escapes of one kind
// are decoded, whichever bytes are written so and whichever are left. It goes
// its own way from an escape on, until it has seen the same as the Stream has.
type reading struct {
	escape
	apart  bool
	at     int32
	part   []byte  // of what may become an escape: the last solids
	split  int64   // the first solid that was read apart
	starts []int64 // the solid that each byte read apart begins with, as far as at goes back
	breaks int     // line breaks that came last, as escapes
}

// next reads c, the last solid of t, before which t was at before.
func (r *reading) next(t *Stream, before int32, c byte) {
	if !r.apart {
		r.apart, r.at, r.split, r.breaks = true, before, t.count-1, 0
		r.part, r.starts = r.part[:0], r.starts[:0]
	}
	r.part = append(r.part, c)
	r.decode(t, false)
	same := r.at == t.at && r.held(t) == int64(t.s.nodes[t.at].depth)
	r.apart = len(r.part) > 0 || r.at != 0 && !same
}

// decode reads what of part is decided; all of it at the end of the text.
func (r *reading) decode(t *Stream, end bool) {
	for len(r.part) > 0 {
		value, n := "", 0
		if r.part[0] == r.intro {
			value, n = r.escape.decode(r.part)
		}
		if n == more && !end {
			return
		}
		if n <= 0 {
			value, n = string(r.part[:1]), 1
		}
		from := t.count - int64(len(r.part))
		for _, c := range []byte(value) {
			r.take(t, c, span{from, from + int64(n)})
		}
		r.part = r.part[:copy(r.part, r.part[n:])]
	}
}

// take reads c, which stands in the text as the solids of in.
func (r *reading) take(t *Stream, c byte, in span) {
	if c == '\n' || c == '\r' {
		if r.breaks++; r.breaks > maxBreaks {
			r.at, r.starts = 0, r.starts[:0]
		}
		return
	}
	r.breaks = 0
	r.at = t.s.step(r.at, c)
	r.starts = append(r.starts, in.from)
	n := t.s.nodes[r.at]
	r.starts = r.starts[max(len(r.starts)-int(n.depth), 0):]
	if n.longest > 0 {
		t.hide(span{r.start(n.longest), in.to})
	}
}

// start is the solid with which the last so many bytes begin.
func (r *reading) start(bytes int32) int64 {
	if before := int(bytes) - len(r.starts); before > 0 {
		return r.split - int64(before)
	}
	return r.starts[len(r.starts)-int(bytes)]
}

// held is how many of the last solids may be of a secret.
func (r *reading) held(t *Stream) int64 {
	if depth := t.s.nodes[r.at].depth; depth > 0 {
		return t.count - r.start(depth)
	}
	return int64(len(r.part))
}
