package host

import (
	"context"
	"encoding/json"
	"strings"

	"agent9/services/agent"
	"agent9/store"
	"agent9/store/files"
)

// Where names the file in the tree that a key of a daemon's store belongs to, as far as
// that is known; what it reads of s may be damaged.
func Where(ctx context.Context, s store.Store, key string) string {
	part, rest, _ := strings.Cut(key, "/")
	switch part + "/" {
	case dataPart:
		id, rest, _ := strings.Cut(rest, "/")
		return ownerOf(ctx, s, id, rest)
	case profilesPart:
		return profilesPart + files.Where(ctx, store.Part(s, profilesPart), rest)
	case agentsPart, accountsPart:
		return key
	}
	return part
}

// ownerOf names a file of the agent or account with an id.
func ownerOf(ctx context.Context, s store.Store, id, key string) (where string) {
	for _, part := range []string{agentsPart, accountsPart} {
		store.Scan(ctx, store.Forgiving(s), part, "", func(name string, value []byte) bool {
			var e entry
			if json.Unmarshal(value, &e) == nil && e.text() == id {
				where = name
			}
			return where == ""
		})
		if where != "" {
			return where + "/" + agent.Where(ctx, store.Part(s, dataPart+id+"/"), key)
		}
	}
	return "the agent or account with the id " + id
}
