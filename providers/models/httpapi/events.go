package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"net/http"

	"agent9/providers/models"
)

// Events calls each with the data of every server-sent event of res that has
// any, until each returns false or an error, or the stream ends. Lines end with
// LF, CR LF or CR, and the last event needs no empty line after it.
func (a *API) Events(ctx context.Context, res *http.Response, each func(data []byte) (more bool, err error)) error {
	var data []byte
	more, err := true, error(nil)
	event := func() bool {
		if d := bytes.TrimSpace(data); len(d) > 0 {
			more, err = each(d)
		}
		data = nil
		return more && err == nil
	}
	broken := a.Lines(ctx, res, func(line []byte) (bool, error) {
		if len(line) == 0 {
			return event(), err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimPrefix(name, []byte("\ufeff"))) == "data" { // RFC 3629's mark begins some streams
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
		return true, nil
	})
	if broken == nil && more && err == nil {
		event()
	}
	if err == nil {
		err = broken
	}
	return err
}

// Lines calls each with every line of res without its end, until each returns
// false or an error, or the stream ends. The line is valid until each returns.
func (a *API) Lines(ctx context.Context, res *http.Response, each func(line []byte) (more bool, err error)) error {
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 2*models.MaxResult)
	lines.Split(splitter())
	for lines.Scan() {
		if more, err := each(lines.Bytes()); err != nil || !more {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return a.Broken(err)
	}
	return nil
}

// splitter splits at LF, CR LF and CR. It does not wait for what comes after a
// CR, as a server may send that only with the next event.
func splitter() bufio.SplitFunc {
	cr := false // ended the last line
	return func(p []byte, atEOF bool) (advance int, line []byte, err error) {
		if cr && len(p) > 0 {
			if cr = false; p[0] == '\n' {
				advance, p = 1, p[1:]
			}
		}
		if i := bytes.IndexAny(p, "\r\n"); i >= 0 {
			cr = p[i] == '\r'
			return advance + i + 1, p[:i], nil
		}
		if atEOF && len(p) > 0 {
			return advance + len(p), p, nil
		}
		return advance, nil, nil
	}
}
