package agent

import (
	"context"
	"strconv"
	"strings"

	"agent9/store"
)

// Where names the file of an agent that a key of its part of the store belongs to,
// as far as that is known; what it reads of s may be damaged.
func Where(ctx context.Context, s store.Store, key string) string {
	name, rest, _ := strings.Cut(key, "/")
	where := numbered
	if p := parts().named(name); p != nil && p.where != nil {
		where = p.where
	}
	return strings.TrimSuffix(name+"/"+where(ctx, store.Part(s, name+"/"), rest), "/")
}

// firstName is where each record, or what is below a name, is a file.
func firstName(_ context.Context, _ store.Store, key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

func inboxFile(_ context.Context, _ store.Store, key string) string {
	if kind, id, _ := strings.Cut(key, "/"); kind == "i" || kind == "m" {
		return id
	}
	return ""
}

// numbered is for work that has a number, in some indexes behind a time.
func numbered(_ context.Context, _ store.Store, key string) string {
	if kind, timed, _ := strings.Cut(key, "/"); kind == "end" || kind == "idle" {
		_, key, _ = strings.Cut(timed, "/")
	}
	for word := range strings.SplitSeq(key, "/") {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && len(word) >= 16 {
			return strconv.FormatInt(n, 10)
		}
	}
	return ""
}
