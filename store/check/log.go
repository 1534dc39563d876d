package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"agent9/fsys"
	"agent9/store"
)

// Log checks the log in st, which is called what, and reports whether it is
// whole. Each of its lines, if each is not nil, is given to it; the first that
// it refuses is a finding.
func Log(ctx context.Context, st store.Updater, r *Report, what string, each func(line []byte) error) (whole bool, err error) {
	state, err := store.InspectLog(ctx, st)
	if err != nil {
		if fsys.CodeOf(err) == fsys.Internal {
			r.Lost(fmt.Sprintf("the length of %s cannot be read", what), FromBackup)
			return false, nil
		}
		return false, err
	}
	if state.Whole < state.Size {
		r.Lost(fmt.Sprintf("of %s only the first %d of %d bytes are there", what, state.Whole, state.Size), FromBackup)
	}
	if len(state.Stray) > 0 {
		r.Mend(fmt.Sprintf("%s has blocks past its end", what), "deletes them", Delete(st, state.Stray...))
	}
	if state.Whole < state.Size || each == nil {
		return state.Whole == state.Size, nil
	}
	if n, err := lines(ctx, st, state.Size, each); err != nil {
		r.Lost(fmt.Sprintf("line %d of %s cannot be read: %s", n, what, fsys.ReasonOf(err)), FromBackup)
		return false, ctx.Err()
	}
	return true, nil
}

// lines gives each of the lines of a log, and returns which one was refused.
func lines(ctx context.Context, st store.Updater, size int64, each func([]byte) error) (n int, err error) {
	l, err := store.OpenLog(ctx, st)
	if err != nil {
		return 0, err
	}
	var rest []byte
	piece := make([]byte, 256<<10)
	for off := int64(0); off < size; {
		m, err := l.ReadAt(piece, off)
		if err != nil {
			return n, err
		}
		off += int64(m)
		rest = append(rest, piece[:m]...)
		for {
			line, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			n++
			if err := each(line); err != nil {
				return n, err
			}
			rest = after
		}
	}
	if len(rest) > 0 {
		return n + 1, fsys.E(fsys.Internal, "it has no end")
	}
	return n, nil
}

// IsJSON refuses a line that is not JSON.
func IsJSON(line []byte) error {
	if !json.Valid(line) {
		return fsys.E(fsys.Internal, "it is not JSON")
	}
	return nil
}
