package ninep

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestHalfway cuts requests that came together: who sent many hears of the
// first half of them while the rest is worked on, and of few all at once.
func TestHalfway(t *testing.T) {
	for n, want := range map[int][]int{4: nil, 32: {16}, 200: {100}} {
		frame := binary.LittleEndian.AppendUint32(nil, 23)
		frame = append(frame, make([]byte, 19)...)
		f := newFrameReader(bytes.NewReader(bytes.Repeat(frame, n)))
		var at []int
		for i := range n {
			if _, err := f.next(minMsize); err != nil {
				t.Fatal(err)
			}
			if f.halfway() {
				at = append(at, i+1)
			}
		}
		if len(at) != len(want) || len(at) == 1 && at[0] != want[0] {
			t.Errorf("of %d requests: halfway after %v, want %v", n, at, want)
		}
	}
}
