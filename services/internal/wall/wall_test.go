package wall

import (
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, -400 * 24 * time.Hour} {
		var c Clock
		before := c.Now()
		c.Set(by)
		after := c.Now()
		if passed := after.Sub(before); passed < 0 || passed > time.Hour/2 {
			t.Errorf("set by %v: %v were measured", by, passed)
		}
		if shown := after.Round(0).Sub(before.Round(0)); shown < by || shown > by+time.Hour/2 {
			t.Errorf("set by %v: the clock shows %v more", by, shown)
		}
	}
}
