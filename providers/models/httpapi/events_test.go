package httpapi

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// pieces gives its texts one at a time.
type pieces []string

func (r *pieces) Read(p []byte) (int, error) {
	for len(*r) > 0 && (*r)[0] == "" {
		*r = (*r)[1:]
	}
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*r)[0])
	(*r)[0] = (*r)[0][n:]
	return n, nil
}

// Lines may end with LF, CR LF and CR, and be cut anywhere.
func TestEvents(t *testing.T) {
	const events = "\ufeffdata: z\n\n: hello\n\nevent: x\nid: 7\ndata: {\"a\":1}\n\ndata:b\ndata:  c \nretry: 1\n\ndata\n\ndata:\n\n\n:\n\ndata: d: e"
	want := []string{"z", `{"a":1}`, "b\n c", "d: e"}
	for _, end := range []string{"\n", "\r", "\r\n"} {
		for _, tail := range []string{"", "\n", "\n\n", "\n\n\n"} {
			text := strings.ReplaceAll(events+tail, "\n", end)
			for cut := range len(text) + 1 {
				var body io.Reader = &pieces{text[:cut], text[cut:]}
				if cut == len(text) {
					body = iotest.OneByteReader(strings.NewReader(text))
				}
				var got []string
				err := new(API).Events(t.Context(), &http.Response{Body: io.NopCloser(body)}, func(data []byte) (bool, error) {
					got = append(got, string(data))
					return true, nil
				})
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%q, cut at %d: got %q, %v, want %q", text, cut, got, err, want)
				}
			}
		}
	}
}

// An event is passed on when its end came, and not when more does.
func TestEventsAreNotKeptBack(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\n"} {
		r, w := io.Pipe()
		got := make(chan string, 2)
		over := make(chan error, 1)
		go func() {
			over <- new(API).Events(t.Context(), &http.Response{Body: r}, func(data []byte) (bool, error) {
				got <- string(data)
				return true, nil
			})
		}()
		for _, data := range []string{"a", "b"} {
			io.WriteString(w, "data: "+data+end)
			if event := <-got; event != data {
				t.Errorf("%q: got %q, want %q", end, event, data)
			}
		}
		w.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

// What stops a stream is its error, and nothing is passed on after it.
func TestEventsEnd(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		body io.Reader
		more bool
		err  error
		want error
	}{
		"enough":      {strings.NewReader("data: a\n\ndata: b\n\n"), false, nil, nil},
		"failed":      {strings.NewReader("data: a\n\ndata: b\n\n"), true, no, no},
		"failed last": {strings.NewReader("data: a"), true, no, no},
		"broken":      {io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(io.ErrUnexpectedEOF)), true, nil, io.ErrUnexpectedEOF},
		"too long":    {io.MultiReader(strings.NewReader("data: a\n\n"), strings.NewReader(strings.Repeat("x", 33<<20))), true, nil, bufio.ErrTooLong},
	} {
		calls := 0
		err := new(API).Events(t.Context(), &http.Response{Body: io.NopCloser(c.body)}, func([]byte) (bool, error) {
			calls++
			return c.more, c.err
		})
		if calls != 1 || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v after %d events", name, err, calls)
		}
	}
}
