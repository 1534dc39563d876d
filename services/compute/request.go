package compute

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
)

// submission is a request as it was written, understood.
type submission struct {
	raw      []byte // as it was written, for the request file
	req      models.Request
	provider string         // empty: any
	maxCost  *budget.Micros // nil: not given
	timeout  int64          // milliseconds; 0: not given
	key      string
	hash     string // of everything but the key
}

// parseSubmission reads a request: OpenAI's body and our own fields, about
// which it is strict, or plain text.
func parseSubmission(raw []byte) (*submission, error) {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return nil, fsys.E(fsys.Invalid, "the request is empty")
	}
	sub := &submission{raw: raw}
	if text[0] != '{' && !fsys.IsArray(text) {
		sub.req = models.Ask("", string(raw))
		sub.hash = hash(sub.req.Body.Bytes())
		return sub, nil
	}
	body, err := models.ParseBody(text)
	if err != nil {
		return nil, err
	}
	var kind models.Kind
	for _, f := range []struct {
		name, want string
		into       any
		ok         func() bool
	}{
		{"kind", "a string", &kind, nil},
		{"provider", "a string", &sub.provider, nil},
		{"max_cost_microusd", fmt.Sprintf("a whole number from 0 to %d", budget.Most), &sub.maxCost,
			func() bool { return sub.maxCost == nil || *sub.maxCost >= 0 && *sub.maxCost <= budget.Most }},
		{"idempotency_key", "a string of 1 to 255 bytes", &sub.key,
			func() bool { return sub.key != "" && len(sub.key) <= fsys.MaxName }},
		{"timeout_ms", fmt.Sprintf("a whole number from 1 to %d", maxTimeout), &sub.timeout,
			func() bool { return sub.timeout > 0 && sub.timeout <= maxTimeout }},
	} {
		value := body.Get(f.name)
		body = body.Delete(f.name)
		if value == nil || string(value) == "null" {
			continue
		}
		if json.Unmarshal(value, f.into) != nil || f.ok != nil && !f.ok() {
			return nil, fsys.E(fsys.Invalid, f.name+" must be "+f.want)
		}
	}
	if sub.req, err = models.ParseRequest(kind, body); err != nil {
		return nil, err
	}
	sub.hash, err = canonicalHash(text)
	return sub, err
}

// canonicalHash tells apart requests that differ in more than white space and
// the order of fields.
func canonicalHash(text []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any // only to bring them in order
	if err := d.Decode(&fields); err != nil {
		return "", fsys.Wrap(fsys.Invalid, "not JSON", err)
	}
	delete(fields, "idempotency_key")
	return hash(fsys.Line(fields)), nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
