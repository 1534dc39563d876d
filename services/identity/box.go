package identity

import (
	"fmt"
	"io"

	"agent9/fsys"
)

// A Box seals what another service keeps, under the master key of a ring, and
// opens what was sealed in a box for the same purpose, and nothing else: not
// the keys of agents. Like a ring it shows nothing when it is printed.
type Box struct {
	seal func(secret []byte, binding []string) []byte
	open func(sealed []byte, binding []string) ([]byte, error)
}

const hiddenBox = "(a box)"

func (Box) String() string               { return hiddenBox }
func (Box) GoString() string             { return hiddenBox }
func (Box) Format(f fmt.State, _ rune)   { io.WriteString(f, hiddenBox) }
func (Box) MarshalText() ([]byte, error) { return []byte(hiddenBox), nil }

// Box returns the box for purpose, which is the caller's own word.
func (r *KeyRing) Box(purpose string) Box {
	bound := func(binding []string) []string { return append([]string{"box", purpose}, binding...) }
	return Box{
		seal: func(secret []byte, binding []string) []byte { return r.seal(secret, bound(binding)...) },
		open: func(sealed []byte, binding []string) ([]byte, error) { return r.open(sealed, bound(binding)...) },
	}
}

// Seal encrypts secret; binding is what Open must be given again.
func (b Box) Seal(secret []byte, binding ...string) []byte { return b.seal(secret, binding) }

// Open returns what was sealed; the caller clears it. An error says nothing of
// what is in it.
func (b Box) Open(sealed []byte, binding ...string) ([]byte, error) {
	secret, err := b.open(sealed, binding)
	return secret, fsys.Wrap(fsys.Internal, "a sealed record", err)
}
