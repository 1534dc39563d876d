package ticks

import (
	"strings"
	"testing"
	"time"

	"agent9/conformance/strict"
)

func FuzzAlarm(f *testing.F) {
	for _, s := range []string{
		"+5m drink", "2030-01-31T08:00:00Z x", "@daily", "@every 1h text", "*/5 * * * * text", "TZ=Europe/Berlin 0 8 * * 1-5 text",
		"TZ=Nowhere @daily", "'0 8 * * *' x", "30 2 31 2 *", "TZ=UTC", "TZ= @daily", "CRON_TZ=UTC 1 2 3 4 5", "@every -1h", "+-5m", "+99999999h",
		strings.Repeat("\x04", 2000) + " 0 0 0 0",
	} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := strict.Read(t, []byte(line), func(in []byte) (alarm, error) { return parseAlarm(strings.Fields(string(in)), now) })
		if !ok || a.Cron == "" {
			return
		}
		if a.Next <= now.UnixMilli() {
			t.Fatalf("%q comes at %v", line, a.due())
		}
		if next, err := a.after(a.due()); err != nil || !next.IsZero() && !next.After(a.due()) {
			t.Fatalf("%q comes at %v, and then at %v, %v", line, a.due(), next, err)
		}
	})
}
