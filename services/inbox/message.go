package inbox

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/services/transports"
)

// A Message is what is in an inbox, and how it looks as JSON.
type Message = transports.Message

var notText = fsys.E(fsys.Invalid, "a message must be UTF-8 text; encode other bytes, as base64 for example")

// An envelope is what a request may say.
type envelope struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	ReplyTo string          `json:"reply_to"`
	Body    json.RawMessage `json:"body"`
	From    json.RawMessage `json:"from"`
	Time    json.RawMessage `json:"time"`
}

// parse returns the message that req asks for, without what the server sets.
func parse(req []byte) (Message, error) {
	switch {
	case req[0] == '{':
		var e envelope
		if err := decode(req, &e); err != nil {
			return Message{}, err
		}
		return e.message()
	case fsys.IsArray(req):
		return Message{}, fsys.E(fsys.Invalid, `a message is a JSON object or plain text; to send an array write {"body": [...]}`)
	}
	if !utf8.Valid(req) {
		return Message{}, notText
	}
	return Message{Body: bytes.TrimSuffix(fsys.Line(string(req)), []byte("\n"))}, nil
}

func (e *envelope) message() (Message, error) {
	switch {
	case e.From != nil, e.Time != nil:
		return Message{}, fsys.E(fsys.Invalid, "from and time are set by the server; leave them out")
	case e.Body == nil:
		return Message{}, fsys.E(fsys.Invalid, "the message has no body")
	}
	if e.ID != "" {
		if err := checkID(e.ID); err != nil {
			return Message{}, err
		}
	}
	return Message{ID: e.ID, Type: e.Type, ReplyTo: e.ReplyTo, Body: e.Body}, nil
}

// checkID reports whether a sender may choose id: it becomes the name of a
// file and a word of a command.
func checkID(id string) error {
	if err := fsys.CheckName(id); err != nil {
		return fsys.Wrap(fsys.Invalid, "id", err)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fsys.E(fsys.Invalid, "an id cannot contain white space or what cannot be printed")
	}
	if slices.Contains([]string{newName, nextName, headName, ctlName, takeName, allWord}, id) {
		return fsys.E(fsys.Invalid, "an id cannot be "+id)
	}
	return nil
}

// newID returns an id that sorts after every earlier one of the same clock,
// which it sets, whatever now is: 11 digits of microseconds in base 32, and 9
// random ones.
func newID(clock *uint64, now time.Time) string {
	*clock = max(uint64(max(now.UnixMicro(), 0)), *clock+1)
	var b [8]byte
	rand.Read(b[:])
	random := binary.LittleEndian.Uint64(b[:]) >> (64 - 45)
	return digits(*clock, 11) + digits(random, 9)
}

func digits(n uint64, width int) string {
	s := strconv.FormatUint(n, 32)
	return strings.Repeat("0", max(0, width-len(s))) + s
}

// decode is strict: a field that v does not have is refused by its name.
func decode(req []byte, v any) error {
	if !utf8.Valid(req) {
		return notText
	}
	return fsys.Wrap(fsys.Invalid, "", fsys.Strictly(req, v))
}
