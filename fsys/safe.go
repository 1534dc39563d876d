package fsys

import "context"

// Safe reports whether a file may be in the listing of a mount. Programs read
// all that is listed there (grep -r, cp -r, a backup), so a name is in it only
// if reading the file from start to end, or listing the directory, takes
// nothing away, starts nothing, and ends without waiting for an event. Every
// other name can be walked to.
func (i Info) Safe() bool { return !i.Acts && (i.Kind != Stream || i.Ended) }

// ListSafe is List for a mount: without the entries that are not [Info.Safe],
// and without starting anything. Each entry has an Info.
func ListSafe(ctx context.Context, n Node) ([]Entry, error) {
	ctx = WithoutStart(ctx)
	all, err := List(ctx, n)
	safe := make([]Entry, 0, len(all))
	for _, e := range all {
		info, err := e.Stat(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil && info.Safe() { // else it was removed since
			safe = append(safe, Entry{e.Name, e.Node, &info})
		}
	}
	return safe, err
}

type withoutStartKey struct{}

// WithoutStart returns a context for looking around: who lists or stats with
// it has not asked for anything by name, so nothing is started for it.
func WithoutStart(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutStartKey{}, true)
}

// MayStart reports whether something may be started for a List or Stat with
// ctx. A directory that would have to lists what it has without that; a file
// has [Info.Acts].
func MayStart(ctx context.Context) bool { return ctx.Value(withoutStartKey{}) == nil }
