package agent

import (
	"context"
	"strconv"
	"strings"

	"agent9/store"
	"agent9/store/files"
)

// Where names the file of an agent that a key of its part of the store belongs to,
// as far as that is known; what it reads of s may be damaged.
func Where(ctx context.Context, s store.Store, key string) string {
	part, rest, _ := strings.Cut(key, "/")
	var name string
	switch part + "/" {
	case goalsPart, skillsPart, statePart:
		name = files.Where(ctx, store.Part(s, part+"/"), rest)
	case logsPart, secretsPart, identityPart:
		name, _, _ = strings.Cut(rest, "/")
	case inboxPart:
		kind, id, _ := strings.Cut(rest, "/")
		if kind == "i" || kind == "m" {
			name = id
		}
	default: // numbered work, in some indexes behind a time
		if kind, timed, _ := strings.Cut(rest, "/"); kind == "end" || kind == "idle" {
			_, rest, _ = strings.Cut(timed, "/")
		}
		for word := range strings.SplitSeq(rest, "/") {
			if n, err := strconv.ParseInt(word, 10, 64); err == nil && len(word) >= 16 {
				name = strconv.FormatInt(n, 10)
				break
			}
		}
	}
	return strings.TrimSuffix(part+"/"+name, "/")
}
