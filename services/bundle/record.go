package bundle

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/store"
)

// line is a record as it is written. One of each pair is there.
type line struct {
	Key     *string `json:"key,omitempty"`
	Key64   []byte  `json:"key64,omitempty"`
	Value   *string `json:"value,omitempty"`
	Value64 *[]byte `json:"value64,omitempty"`
}

// maxLine bounds a line of the largest key and value there can be.
const maxLine = (store.MaxValue+store.MaxKey)/3*4 + 1<<10

func encode(p store.Pair) []byte {
	var l line
	if utf8.ValidString(p.Key) {
		l.Key = &p.Key
	} else {
		l.Key64 = []byte(p.Key)
	}
	if utf8.Valid(p.Value) {
		value := string(p.Value)
		l.Value = &value
	} else {
		l.Value64 = &p.Value
	}
	b := fsys.Line(l)
	if len(b) > maxLine { // of text that JSON writes at length
		l.Value, l.Value64 = nil, &p.Value
		b = fsys.Line(l)
	}
	return b
}

func decode(text []byte) (store.Pair, error) {
	var l line
	if err := fsys.Strictly(text, &l); err != nil || (l.Key == nil) == (l.Key64 == nil) || (l.Value == nil) == (l.Value64 == nil) {
		return store.Pair{}, invalid("a record has no key, no value, or more than that")
	}
	var p store.Pair
	if p.Key = string(l.Key64); l.Key != nil {
		p.Key = *l.Key
	}
	if l.Value != nil {
		p.Value = []byte(*l.Value)
	} else {
		p.Value = *l.Value64
	}
	if err := store.Check(p.Key, p.Value); err != nil {
		return p, fsys.Wrap(fsys.Invalid, "a record", err)
	}
	return p, nil
}

// records yields what r has, whose keys must ascend.
func records(r io.Reader) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		lines := bufio.NewReaderSize(r, 64<<10)
		last := ""
		for {
			text, err := readLine(lines)
			if errors.Is(err, io.EOF) && len(text) == 0 {
				return
			}
			var p store.Pair
			switch {
			case errors.Is(err, io.EOF):
				err = invalid("the last record is cut off")
			case err == nil:
				if p, err = decode(text); err == nil && p.Key <= last {
					err = invalid("its records are not in order")
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
			last = p.Key
		}
	}
}

// readLine returns a line with its end, of maxLine bytes at most.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		piece, err := r.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case len(text) > maxLine:
			return nil, invalid("a record is longer than it can be")
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		}
	}
}
