// Package wall is a clock for tests, which can be set as a person or NTP sets
// that of a machine.
package wall

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// A Clock shows the time of the machine, or of a synctest bubble, as it has been
// set. The zero Clock has not been set. It is safe for concurrent use.
type Clock struct{ off atomic.Int64 }

// Set sets the clock forward by that many whole seconds, or back if it is
// negative.
func (c *Clock) Set(by time.Duration) { c.off.Add(int64(by / time.Second)) }

// Now is what time.Now returns on a machine whose clock was set: its wall clock
// shows another time, and the monotonic reading, with which Go measures how
// long something took, goes on as before. In a bubble there is no such reading.
func (c *Clock) Now() time.Time {
	t, off := time.Now(), c.off.Load()
	if t == t.Round(0) {
		return t.Add(time.Duration(off) * time.Second)
	}
	// In a Time with a monotonic reading the first word has, besides a flag, 33
	// bits of seconds above 30 bits of nanoseconds. The package time has no
	// means to set them on their own.
	word := (*uint64)(unsafe.Pointer(&t))
	*word += uint64(off) << 30
	return t
}
