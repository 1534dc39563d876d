package bundle

import (
	"bytes"
	"strconv"
)

// An Extent finds the end of a bundle in bytes as they come, and refuses at
// once what does not begin like one.
type Extent struct {
	block  []byte // of a header that is not whole yet
	skip   int64  // bytes of a member, with what fills its last block
	zeros  int    // blocks of them in a row: two are the end
	begun  bool
	broken error
}

const blockSize = 512

// Feed returns how many of p belong to the bundle, and whether it is whole.
func (e *Extent) Feed(p []byte) (n int, whole bool, err error) {
	if e.broken != nil {
		return 0, false, e.broken
	}
	for n < len(p) {
		if e.skip > 0 {
			m := min(e.skip, int64(len(p)-n))
			n, e.skip = n+int(m), e.skip-m
			continue
		}
		m := min(blockSize-len(e.block), len(p)-n)
		e.block = append(e.block, p[n:n+m]...)
		if n += m; len(e.block) < blockSize {
			break
		}
		whole, e.broken = e.header()
		if e.block = e.block[:0]; whole || e.broken != nil {
			return n, whole, e.broken
		}
	}
	return n, false, nil
}

// header reads the block that is whole.
func (e *Extent) header() (whole bool, err error) {
	name, _, _ := bytes.Cut(e.block[:100], []byte{0})
	switch {
	case !e.begun && string(name) != manifestName:
		return false, notBundle
	case bytes.Equal(e.block, make([]byte, blockSize)):
		e.zeros++
		return e.zeros == 2, nil
	}
	e.begun, e.zeros = true, 0
	size, err := strconv.ParseInt(string(bytes.Trim(e.block[124:136], " \x00")), 8, 64)
	if err != nil || size < 0 {
		return false, cutOff
	}
	e.skip = (size + blockSize - 1) / blockSize * blockSize
	return false, nil
}
