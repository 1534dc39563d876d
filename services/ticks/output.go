package ticks

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// What is kept of what programs print.
const (
	keptTicks = 16       // the last ones
	keptHead  = 32 << 10 // bytes of each, of its beginning
	keptTail  = 32 << 10 // and of its end
)

// output keeps the beginning and the end of what a program prints.
type output struct {
	limit int64

	mu   sync.Mutex
	head []byte
	tail []byte
	size int64
}

func newOutput(limit int64) *output { return &output{limit: limit} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size += int64(len(p))
	rest := p
	if n := min(keptHead-len(o.head), len(rest)); n > 0 {
		o.head, rest = append(o.head, rest[:n]...), rest[n:]
	}
	o.tail = append(o.tail, rest...)
	if over := len(o.tail) - keptTail; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	if o.size > o.limit {
		return 0, programs.ErrFlooded
	}
	return len(p), nil
}

// text returns what is kept, as lines of UTF-8.
func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := bytes.Clone(o.head)
	if left := o.size - int64(len(o.head)+len(o.tail)); left > 0 {
		b = fmt.Appendf(b, "\n… %d bytes are left out …\n", left)
	}
	b = bytes.ToValidUTF8(append(b, o.tail...), []byte("\uFFFD"))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	return b
}

func outputKey(id string) string {
	n, _ := strconv.ParseUint(id, 10, 64)
	return fmt.Sprintf("%s%02d", outputs, n%keptTicks)
}

// store writes what was printed in place of what an earlier tick has.
func (o *output) store(ctx context.Context, in store.Store, was *running, outcome, reason string) error {
	text := o.text()
	if len(text) == 0 {
		return in.Delete(ctx, outputKey(was.ID))
	}
	b := fmt.Appendf(nil, "--- tick %s, %s, %s", was.ID, fsys.Stamp(time.UnixMilli(was.Start)), outcome)
	if reason != "" {
		b = append(b, ": "+reason...)
	}
	return in.Put(ctx, outputKey(was.ID), append(append(b, '\n'), text...))
}

// Output returns the file logs/output.
func (s *Service) Output() fsys.Node {
	return fsys.Text(func(ctx context.Context) ([]byte, error) {
		r, err := loadRecord(ctx, s.st)
		if err != nil {
			return nil, err
		}
		var all []byte
		for n := max(r.Count, keptTicks-1) - (keptTicks - 1); n <= r.Count; n++ {
			b, err := s.st.Get(ctx, outputKey(tickID(n)))
			if err != nil && fsys.CodeOf(err) != fsys.NotExist {
				return nil, err
			}
			all = append(all, b...)
		}
		return all, nil
	})
}
