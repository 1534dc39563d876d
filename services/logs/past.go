package logs

import (
	"bytes"
	"context"
	"io"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// A Tick is one run of an agent.
type Tick struct {
	ID           string
	Cause        string // what set it off
	Message      string // the id of the message that did, if one did
	Attempt      int
	Start        time.Time
	Duration     time.Duration
	Outcome      string
	Reason       string // of its failure
	CostMicroUSD int64
}

type tickLine struct {
	ID           string `json:"id"`
	Cause        string `json:"cause"`
	Message      string `json:"message,omitempty"`
	Attempt      int    `json:"attempt"`
	Start        string `json:"start"`
	DurationMS   int64  `json:"duration_ms"`
	Outcome      string `json:"outcome"`
	Reason       string `json:"reason,omitempty"`
	CostMicroUSD int64  `json:"cost_microusd"`
}

// Tick adds a line to ticks in the transaction that tx belongs to.
func (l *Logs) Tick(tx store.Store, t Tick) error {
	return l.ticks.Append(tx, fsys.Line(tickLine{
		t.ID, t.Cause, t.Message, t.Attempt, fsys.Stamp(t.Start), t.Duration.Milliseconds(), t.Outcome, t.Reason, t.CostMicroUSD,
	}))
}

// past is a log as a file that grows: a read at the end is the end, so cat
// ends, and tail works as on any log.
type past struct{ log *store.Log }

func (p *past) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Perm: 0o444, Size: p.log.Size()}, nil
}

func (p *past) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) {
	if f != fsys.Read {
		return nil, fsys.E(fsys.Permission, "this file is read-only")
	}
	return pastHandle{p.log}, nil
}

type pastHandle struct{ log *store.Log }

func (pastHandle) Close() error { return nil }

func (h pastHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	}
	size := h.log.Size()
	if off >= size {
		return 0, io.EOF
	}
	return h.log.ReadAt(p[:min(int64(len(p)), size-off)], off)
}

// What recent shows at most.
const (
	recentEvents = 512
	recentBytes  = 1 << 20
)

// recent reads backwards from the end of the trajectory, so it costs nothing
// until somebody looks.
func (l *Logs) recent(context.Context) ([]byte, error) {
	const step = 64 << 10
	end := l.trajectory.Size()
	var tail []byte
	for from := end; ; {
		if b, whole := lastLines(tail, from == 0); whole || end-from >= recentBytes {
			return b, nil
		}
		piece := make([]byte, min(step, from))
		from -= int64(len(piece))
		for n := 0; n < len(piece); {
			m, err := l.trajectory.ReadAt(piece[n:], from+int64(n))
			if err != nil {
				return nil, err
			}
			n += m
		}
		tail = append(piece, tail...)
	}
}

// lastLines returns the last lines of b, as many as recent shows, and whether
// there are so many or b is all there is.
func lastLines(b []byte, all bool) (lines []byte, whole bool) {
	at := len(b)
	for range recentEvents {
		at = bytes.LastIndexByte(b[:max(0, at-1)], '\n') + 1
		if at == 0 {
			break
		}
	}
	if at == 0 && !all { // the first line may have lost its beginning
		return b[bytes.IndexByte(b, '\n')+1:], false
	}
	return b[at:], true
}
