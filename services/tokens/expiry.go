package tokens

import (
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
)

// DefaultLife is how long a token lives for which nobody said how long: a day,
// because what is handed out and forgotten should not stay good.
const DefaultLife = 24 * time.Hour

const day = 24 * time.Hour

// maxLife is the longest life that is not written as never.
const maxLife = 100 * 365 * day

// ParseExpiry returns when a token expires that is issued now: after a
// duration (90m, 24h, 7d, 2w), at a time (RFC 3339), or, for "never", the zero
// time. The empty string means [DefaultLife].
func ParseExpiry(s string, now time.Time) (time.Time, error) {
	switch s {
	case "":
		return now.Add(DefaultLife), nil
	case never:
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		life, ok := parseLife(s)
		if !ok {
			return time.Time{}, fsys.E(fsys.Invalid, "expiry: "+quote(s)+" is neither a duration, such as 24h or 7d, nor a time, such as 2030-01-31T12:00:00Z, nor never")
		}
		at = now.Add(life)
	}
	switch life := at.Sub(now); {
	case life <= 0:
		return time.Time{}, fsys.E(fsys.Invalid, "expiry: "+quote(s)+" is not in the future")
	case life > maxLife:
		return time.Time{}, fsys.E(fsys.Invalid, "expiry: "+quote(s)+" is more than 100 years; write never")
	}
	return at, nil
}

// parseLife reads whole days and weeks, and what Go calls a duration. What is
// too long for either is maxLife and more.
func parseLife(s string) (time.Duration, bool) {
	for unit, length := range map[string]time.Duration{"d": day, "w": 7 * day} {
		if digits, ok := strings.CutSuffix(s, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 32)
			return min(time.Duration(n), maxLife/length+1) * length, err == nil
		}
	}
	life, err := time.ParseDuration(s)
	return life, err == nil
}

// quote shows what somebody wrote, shortened.
func quote(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return strconv.Quote(s)
}
