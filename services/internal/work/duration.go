package work

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Duration is a time in a policy: what Go calls one, such as 90m or 24h, or
// whole days, such as 30d.
type Duration time.Duration

const maxDuration = 36500 * Day

func (d Duration) MarshalText() ([]byte, error) {
	t := time.Duration(d)
	switch {
	case t > 0 && t%Day == 0:
		return []byte(strconv.Itoa(int(t/Day)) + "d"), nil
	case t > 0 && t%time.Hour == 0:
		return []byte(strconv.Itoa(int(t/time.Hour)) + "h"), nil
	}
	return []byte(t.String()), nil
}

// JSONKind is what [fsys.InJSON] says is expected.
func (d *Duration) JSONKind() string { return `a time such as "90m", "24h" or "30d"` }

func (d *Duration) UnmarshalText(text []byte) error {
	t, err := time.ParseDuration(string(text))
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		t = time.Duration(n) * Day
	}
	if err != nil || t < 0 || t > maxDuration {
		return fmt.Errorf("%.40q is not a time such as 90m, 24h or 30d", text)
	}
	*d = Duration(t)
	return nil
}
