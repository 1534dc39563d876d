package fsys_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"agent9/fsys"
)

// What is wrong with a document is said in the words of JSON.
func TestStrictlySpeaksJSON(t *testing.T) {
	type part struct {
		Limit uint8 `json:"limit"`
	}
	type doc struct {
		Name   string         `json:"name"`
		Count  *int           `json:"count"`
		Share  float64        `json:"share"`
		On     bool           `json:"on"`
		List   []string       `json:"list"`
		Bytes  []byte         `json:"bytes"`
		Part   part           `json:"part"`
		Labels map[string]int `json:"labels"`
		From   netip.Addr     `json:"from"`
	}
	for in, want := range map[string]string{
		`{"name": 5}`:                 "name: a string is expected, not a number",
		`{"count": "5"}`:              "count: a whole number is expected, not a string",
		`{"count": 1.5}`:              "count: a whole number is expected, not 1.5",
		`{"count": true}`:             "count: a whole number is expected, not true or false",
		`{"share": []}`:               "share: a number is expected, not an array",
		`{"on": "yes"}`:               "on: true or false is expected, not a string",
		`{"list": {}}`:                "list: an array is expected, not an object",
		`{"list": [1]}`:               "list: a string is expected, not a number",
		`{"bytes": 1}`:                "bytes: a string is expected, not a number",
		`{"part": "x"}`:               "part: an object is expected, not a string",
		`{"part": {"limit": "many"}}`: "part.limit: a whole number is expected, not a string",
		`{"part": {"limit": 300}}`:    "part.limit: a whole number is expected, not 300, which is too large or too small",
		`{"labels": 1}`:               "labels: an object is expected, not a number",
		`{"from": 7}`:                 "from: a string is expected, not a number",
		`[]`:                          "an object is expected, not an array",
		`null`:                        "an object is expected, not null",
		`"x"`:                         "an object is expected, not a string",
		`{"nmae": 5}`:                 `unknown field "nmae"; there are name, count, share, on, list, bytes, part, labels, from`,
		`{"part": {"limt": 1}}`:       `unknown field "limt"; there are limit`,
		`{} {}`:                       "there is data after the JSON object",
	} {
		var d doc
		err := fsys.Strictly([]byte(in), &d)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", in, err, want)
		}
		if wrapped := fsys.Wrap(fsys.Invalid, "policy", err); fsys.ReasonOf(wrapped) != "policy: "+want {
			t.Errorf("%s, as a reason: %s", in, fsys.ReasonOf(wrapped))
		}
	}
	var wrong *json.UnmarshalTypeError
	if err := fsys.Strictly([]byte(`{"name": 5}`), &doc{}); !errors.As(err, &wrong) || wrong.Field != "name" {
		t.Errorf("%v is not what encoding/json says", err)
	}
	if err := fsys.Strictly([]byte(`{"name": "x", "part": {"limit": 3}}`), &doc{}); err != nil {
		t.Error(err)
	}
}
