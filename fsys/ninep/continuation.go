package ninep

// A continuation remembers the last Tread of a Stream's fid, to tell a Tread
// that goes on with the same read(2) from one that begins another.
//
// Linux's v9fs makes one read(2) of as many Treads as fill its buffer, or
// until a reply is empty. At the tail of a stream the second of them would
// block with the first one's data in hand. So a continuation that finds
// nothing new is answered 0 at once: that ends the read(2), not the file, and
// the read(2) after it blocks.
type continuation struct {
	known bool
	count uint32 // that the last Tread asked for
	n     uint32 // that it got
	end   uint64 // the offset behind what it got
	empty bool   // it was a continuation, and was answered 0
}

// follows reports whether a Tread of count bytes at off goes on with the
// read(2) of the last one. clip is the largest count a client asks for;
// ambiguous allows the one case in which a library client that always asks
// for the maximum looks like v9fs.
func (c *continuation) follows(off uint64, count, clip uint32, ambiguous bool) bool {
	if !c.known || c.empty || off != c.end {
		return false
	}
	switch {
	case c.n > 0 && c.n < c.count && count == c.count-c.n:
		return true
	case c.count == clip && c.n > 0 && c.n < c.count && count >= clip-c.n && count < clip:
		return true
	case c.count == clip && c.n < c.count && count == clip:
		return ambiguous
	}
	return c.n == c.count && c.count == clip && count < clip
}

// answered records a Tread and how it was answered; continued is what follows
// said about it.
func (c *continuation) answered(off uint64, count, n uint32, continued bool) {
	*c = continuation{true, count, n, off + uint64(n), continued && n == 0}
}
