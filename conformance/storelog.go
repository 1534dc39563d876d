package conformance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/store"
)

func openLog(t *testing.T, s store.Updater) *store.Log {
	t.Helper()
	l, err := store.OpenLog(t.Context(), store.Sub(s, "log/"))
	must(t, err)
	return l
}

// appendLog appends each of texts in one transaction of s.
func appendLog(t *testing.T, s store.Updater, l *store.Log, texts ...string) {
	t.Helper()
	must(t, s.Update(t.Context(), appender(l, nil, texts...)))
}

func appender(l *store.Log, end error, texts ...string) func(tx store.Store) error {
	return func(tx store.Store) error {
		for _, text := range texts {
			if err := l.Append(tx, []byte(text)); err != nil {
				return err
			}
		}
		return end
	}
}

func wantLog(t *testing.T, l *store.Log, want string) {
	t.Helper()
	if got, err := readLog(l, 1<<16); got != want || err != nil {
		t.Errorf("the log reads %s, error %v; want %s", brief(got), err, brief(want))
	}
}

func brief(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%q… (%d bytes)", s[:100], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// readLog reads all of l, at most n bytes at a time.
func readLog(l *store.Log, n int) (string, error) {
	var all []byte
	p := make([]byte, n)
	for off := int64(0); off < l.Size(); {
		m, err := l.ReadAt(p, off)
		if err != nil {
			return string(all), err
		}
		all, off = append(all, p[:m]...), off+int64(m)
	}
	return string(all), nil
}

func storeLog(t *testing.T, s store.Updater) {
	l := openLog(t, s)
	if _, err := l.ReadAt(make([]byte, 1), 0); !fsys.IsEOF(err) {
		t.Errorf("ReadAt of an empty log: got %v, want io.EOF", err)
	}
	read := make(chan string)
	go func() { // a follower from the beginning, through the tape
		h, err := l.Tape().Open(t.Context(), fsys.Read)
		if err != nil {
			t.Error(err)
		}
		b, err := fsys.ReadAll(t.Context(), h)
		if err != nil {
			t.Error(err)
		}
		read <- string(b)
	}()
	var want strings.Builder
	for i, size := range []int{1, 0, 100, 8191, 8192, 8193, 3, 50_000, 16384, 200_000} {
		text := strings.Repeat(string(rune('a'+i)), size)
		want.WriteString(text)
		appendLog(t, s, l, text)
	}
	wantLog(t, l, want.String())
	for _, n := range []int{1000, 8192, 1 << 20} {
		if got, err := readLog(l, n); got != want.String() || err != nil {
			t.Errorf("read by %d bytes: got %s, error %v", n, brief(got), err)
		}
	}
	l.Tape().End()
	if got := <-read; got != want.String() {
		t.Errorf("a follower got %s, want %s", brief(got), brief(want.String()))
	}
	if l = openLog(t, s); l.Size() != int64(want.Len()) {
		t.Errorf("opened again: got size %d, want %d", l.Size(), want.Len())
	}
	wantLog(t, l, want.String())
	appendLog(t, s, l, "more")
	wantLog(t, l, want.String()+"more")
}

func storeLogUndone(t *testing.T, s store.Updater) {
	ctx := t.Context()
	l := openLog(t, s)
	wantCode(t, "Append outside of a transaction", l.Append(s, []byte("x")), fsys.Internal)
	wantCode(t, "Update", s.Update(ctx, appender(l, fsys.Busy, "undone")), fsys.Busy)
	wantLog(t, l, "")
	appendLog(t, s, l, "1", "2", "3") // in one transaction
	must(t, l.Buffer([]byte("4")))
	wantCode(t, "Update", s.Update(ctx, appender(l, fsys.Busy, "undone")), fsys.Busy)
	wantLog(t, l, "1234")
	must(t, s.Update(ctx, func(tx store.Store) error {
		must(t, l.Append(tx, []byte("5")))
		must(t, l.Buffer([]byte("6"))) // behind 5, which is not there yet
		wantLog(t, l, "1234")
		must(t, l.Append(tx, []byte("7")))
		must(t, l.Buffer([]byte("8")))
		return nil
	}))
	wantLog(t, l, "12345678")
	s.Update(ctx, func(tx store.Store) error {
		must(t, l.Append(tx, []byte("undone")))
		must(t, l.Buffer([]byte("9")))
		must(t, l.Append(tx, []byte("undone")))
		return fsys.Busy
	})
	wantLog(t, l, "123456789")
	must(t, l.Flush(ctx))
	wantLog(t, l, "123456789")
	wantLog(t, openLog(t, s), "123456789")

	// Many at once, of which some fail: every line is whole, and those that
	// came from one goroutine are in order.
	var wg sync.WaitGroup
	const writers, lines = 12, 8
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				var err error
				switch line := fmt.Sprintf("\n%02d %d", w, i); w % 4 {
				case 0:
					err = l.Buffer([]byte(line))
				case 1:
					err = l.Buffer([]byte(line))
					if err == nil && i == lines/2 {
						err = l.Flush(ctx)
					}
				case 2:
					err = s.Update(ctx, appender(l, nil, line))
				case 3:
					if e := s.Update(ctx, appender(l, fsys.Busy, line)); fsys.CodeOf(e) != fsys.Busy {
						err = fmt.Errorf("got %v, want Busy", e)
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, l.Flush(ctx))
	got, err := readLog(l, 100)
	must(t, err)
	if stored, err := readLog(openLog(t, s), 1<<16); stored != got || err != nil {
		t.Errorf("what is stored differs from what was seen: %q, %v; %q", stored, err, got)
	}
	next := make([]int, writers)
	for _, line := range strings.Split(got, "\n")[1:] {
		var w, i int
		if _, err := fmt.Sscanf(line, "%d %d", &w, &i); err != nil || i != next[w] {
			t.Fatalf("line %q is torn or not in order", line)
		}
		next[w]++
	}
	for w, n := range next {
		want := lines
		if w%4 == 3 {
			want = 0
		}
		if n != want {
			t.Errorf("writer %d: got %d lines, want %d", w, n, want)
		}
	}
}

func storeLogBuffered(t *testing.T, s store.Updater) {
	ctx := t.Context()
	l := openLog(t, s)
	woken := make(chan int64)
	go func() {
		size, _, err := l.Tape().Wait(ctx, 0)
		if err != nil {
			t.Error(err)
		}
		woken <- size
	}()
	must(t, l.Buffer([]byte("token")))
	if size := <-woken; size != 5 {
		t.Errorf("a reader that waited was told of %d bytes, want 5", size)
	}
	wantLog(t, l, "token")
	if got := openLog(t, s).Size(); got != 0 {
		t.Errorf("before Flush %d bytes are stored, want 0", got)
	}
	must(t, l.Flush(ctx))
	must(t, l.Flush(ctx))
	wantLog(t, openLog(t, s), "token")

	// More than is held in memory, in small pieces and in large ones.
	want := bytes.NewBufferString("token")
	for i, n := range []int{30_000, 30_000, 30_000, 1, 100_000, 1, 65_536} {
		p := bytes.Repeat([]byte{byte('a' + i)}, n)
		want.Write(p)
		must(t, l.Buffer(p))
		if held := l.Size() - openLog(t, s).Size(); held > 64<<10 {
			t.Errorf("%d bytes are held in memory, want at most 64 KiB", held)
		}
	}
	wantLog(t, l, want.String())
	must(t, l.Flush(ctx))
	wantLog(t, openLog(t, s), want.String())

	ended, cancel := context.WithCancel(ctx)
	cancel()
	must(t, l.Buffer([]byte("kept")))
	wantCode(t, "Flush", l.Flush(ended), fsys.Canceled)
	want.WriteString("kept")
	wantLog(t, l, want.String())
}

func storeLogDropped(t *testing.T, s store.Updater) {
	ctx := t.Context()
	l := openLog(t, s)
	put(t, s, "log", "log0")
	appendLog(t, s, l, strings.Repeat("x", 100_000))
	must(t, l.Buffer([]byte("buffered")))
	wantCode(t, "Drop outside of a transaction", l.Drop(s), fsys.Internal)
	s.Update(ctx, func(tx store.Store) error {
		must(t, l.Drop(tx))
		return fsys.Busy
	})
	must(t, l.Buffer([]byte("more")))
	wantLog(t, l, strings.Repeat("x", 100_000)+"bufferedmore")
	must(t, s.Update(ctx, func(tx store.Store) error {
		must(t, l.Drop(tx))
		wantCode(t, "Append", l.Append(tx, []byte("x")), fsys.NotExist)
		return nil
	}))
	if size, ended, err := l.Tape().Wait(ctx, 0); size != 0 || !ended || err != nil {
		t.Errorf("Wait: got %d, %v, %v; want the end", size, ended, err)
	}
	wantCode(t, "Buffer", l.Buffer([]byte("x")), fsys.NotExist)
	wantCode(t, "Update", s.Update(ctx, appender(l, nil, "x")), fsys.NotExist)
	must(t, l.Flush(ctx))
	wantKeys(t, s, "", "", 10, "log log0")
}
