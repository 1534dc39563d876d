// Package scrub takes secrets out of what others say, in every form in which
// programs commonly repeat one: as it is, in hexadecimal (also with one space or
// colon between bytes), in base64 wherever in the encoded text it begins (so that
// user:token is found too), and between the quotes of shells; each of these with
// any bytes, and any others left, as %XX, as an escape after a backslash (JSON,
// C, Python, shells), or as an entity of HTML. A line break within one of these,
// as programs put it after so many columns, hides nothing.
//
// It is against what happens by accident. A program that has a secret, and wants
// it to be seen, finds a form that is not looked for.
package scrub

import (
	"bytes"
	"slices"
)

// Mark is what stands in the place of a secret.
const Mark = "[secret]"

// Shortest is how many bytes a secret must have to be looked for: a shorter one
// would be found in what has nothing to do with it.
const Shortest = 6

// A Scrubber knows secrets. It is immutable, and looks at each byte a bounded
// number of times on average, however many secrets there are. The nil Scrubber
// knows none.
type Scrubber struct {
	nodes []node // the automaton of Aho and Corasick; 0 is its root
	first [256]int32
}

// A node is what has been seen of a pattern.
type node struct {
	child, next int32 // the first one deeper, and the next one beside it; 0: none
	fail        int32 // what has been seen of another one that begins later
	depth       int32
	longest     int32 // how long the longest pattern is that ends here; 0: none does
	by          byte
}

// New returns what knows the secrets of at least Shortest bytes, and each word
// or line of them that has two times as many; nil if there are none.
func New(secrets ...[]byte) *Scrubber {
	s := &Scrubber{nodes: make([]node, 1)}
	for _, secret := range secrets {
		parts := [][]byte{secret}
		for _, word := range bytes.Fields(secret) {
			if len(word) >= 2*Shortest && len(word) < len(secret) {
				parts = append(parts, word)
			}
		}
		for _, part := range parts {
			if len(part) < Shortest {
				continue
			}
			for _, form := range forms(part) {
				s.add(unbroken(form))
			}
		}
	}
	if len(s.nodes) == 1 {
		return nil
	}
	s.link()
	return s
}

// unbroken is text without line breaks.
func unbroken(text []byte) []byte {
	return slices.DeleteFunc(text, func(c byte) bool { return c == '\n' || c == '\r' })
}

func (s *Scrubber) add(pattern []byte) {
	if len(pattern) < Shortest {
		return
	}
	at := int32(0)
	for _, c := range pattern {
		down := s.down(at, c)
		if down == 0 {
			down = int32(len(s.nodes))
			s.nodes = append(s.nodes, node{by: c, depth: s.nodes[at].depth + 1, next: s.nodes[at].child})
			s.nodes[at].child = down
			if at == 0 {
				s.first[c] = down
			}
		}
		at = down
	}
	s.nodes[at].longest = int32(len(pattern))
}

// down is the node that c leads to, one deeper; 0: none.
func (s *Scrubber) down(at int32, c byte) int32 {
	if at == 0 {
		return s.first[c]
	}
	n := s.nodes[at].child
	for n != 0 && s.nodes[n].by != c {
		n = s.nodes[n].next
	}
	return n
}

// step is the node of all that was seen, when c comes after at.
func (s *Scrubber) step(at int32, c byte) int32 {
	for {
		if down := s.down(at, c); down != 0 || at == 0 {
			return down
		}
		at = s.nodes[at].fail
	}
}

// link finds where each node fails to, those less deep first.
func (s *Scrubber) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for n := s.nodes[at].child; n != 0; n = s.nodes[n].next {
			if at != 0 {
				s.nodes[n].fail = s.step(s.nodes[at].fail, s.nodes[n].by)
			}
			s.nodes[n].longest = max(s.nodes[n].longest, s.nodes[s.nodes[n].fail].longest)
			queue = append(queue, n)
		}
	}
}

// Bytes returns text without the secrets; it may be text itself.
func (s *Scrubber) Bytes(text []byte) []byte {
	if s == nil {
		return text
	}
	st := s.Stream()
	return slices.Concat(st.Next(text), st.End())
}

// String is Bytes for a string.
func (s *Scrubber) String(text string) string {
	if s == nil {
		return text
	}
	return string(s.Bytes([]byte(text)))
}
