package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/scrub"
)

// A Refusal is a response that is an error.
type Refusal struct {
	Status  int
	Message string // for people
	Wait    time.Duration
}

func (r *Refusal) Error() string { return r.Message }

// RetryAfter is how long the server wants to be left alone; 0 if it does not
// say. See compute.RetryAfter.
func (r *Refusal) RetryAfter() time.Duration { return r.Wait }

// Final reports whether it is about who asks, and not about when. See
// compute.Final.
func (r *Refusal) Final() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return true
	}
	return false
}

// Explain turns the outcome of a request into an error with a Code and a
// reason; nil if it is good. ctx is the request's: its end is the first
// explanation. A response that is refused is closed.
func (a *API) Explain(ctx context.Context, res *http.Response, err error) error {
	switch {
	case ctx.Err() != nil:
		if res != nil {
			res.Body.Close()
		}
		return context.Cause(ctx)
	case res != nil && res.StatusCode >= 400:
		body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		res.Body.Close()
		return a.Refused(res.StatusCode, res.Header, body)
	case err == nil:
		return nil
	}
	return a.Broken(err)
}

// Broken explains a connection that failed.
func (a *API) Broken(err error) error {
	what := a.Target + ": "
	var dns *net.DNSError
	var timeout net.Error
	var ours *fsys.Error
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.Is(err, syscall.ECONNREFUSED):
		what += "nothing answers there (connection refused)"
	case errors.As(err, &dns):
		what += "there is no such host"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		what += "the server ended the connection in the middle"
	case errors.As(err, &timeout) && timeout.Timeout():
		return &fsys.Error{Code: fsys.Timeout, Reason: what + "the server does not answer", Err: err}
	default:
		what += a.Redact(err.Error())
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: what, Err: err}
}

// Refused explains a response with an error status.
func (a *API) Refused(status int, header http.Header, body []byte) error {
	r := &Refusal{status, a.Message(body), wait(header)}
	if r.Message == "" {
		r.Message = http.StatusText(status)
	}
	e := &fsys.Error{Code: codeOf(status), Reason: "the server says: " + r.Message, Err: r}
	switch {
	case status == http.StatusUnauthorized && a.Key == "":
		e.Reason = "the server wants a key; set " + a.KeyName
	case status == http.StatusUnauthorized:
		// What servers say here has parts of the key in it.
		e.Reason = "the key was refused; see " + a.KeyName
		r.Message = e.Reason
	case a.Code != nil:
		if code := a.Code(status, body); code != fsys.Internal {
			e.Code = code
		}
	}
	return e
}

func codeOf(status int) fsys.Code {
	switch status {
	case http.StatusNotFound:
		return fsys.NotExist
	case http.StatusRequestEntityTooLarge:
		return fsys.TooLarge
	case http.StatusTooManyRequests:
		return fsys.Busy
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return fsys.Timeout
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired:
		return fsys.Unavailable
	}
	if status < 500 {
		return fsys.Invalid
	}
	return fsys.Unavailable
}

// wait reads Retry-After (RFC 9110, 10.2.3), at most the longest.
func wait(header http.Header) time.Duration {
	after := header.Get("Retry-After")
	var d time.Duration
	if seconds, err := strconv.ParseFloat(after, 64); err != nil {
		if at, err := http.ParseTime(after); err == nil {
			d = time.Until(at)
		}
	} else if seconds >= longest.Seconds() {
		d = longest
	} else if seconds > 0 {
		d = time.Duration(seconds * float64(time.Second))
	}
	return min(max(d, 0), longest)
}

const longest = time.Hour

// Message finds the words for people in the body of an error, in the forms
// {error: {message}}, {error: text}, {detail: text}, {message: text},
// {errors: [{message}]}, or plain text. It may be empty, is bounded, and has no
// part of the key in it.
func (a *API) Message(body []byte) string {
	// Before it is cut, which may be in the middle of the key, and after, as
	// JSON may have written the key in another way.
	return a.Redact(message([]byte(a.Redact(string(body)))))
}

func message(body []byte) string {
	type said struct {
		Message string `json:"message"`
	}
	var wire struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Errors  []said          `json:"errors"`
	}
	if json.Unmarshal(body, &wire) != nil {
		if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
			return clip(text)
		}
		return "" // a page of HTML
	}
	for _, raw := range []json.RawMessage{wire.Error, wire.Detail} {
		var text string
		var object said
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return clip(text)
		}
		if json.Unmarshal(raw, &object) == nil && object.Message != "" {
			return clip(object.Message)
		}
	}
	for _, e := range wire.Errors {
		if e.Message != "" {
			return clip(e.Message)
		}
	}
	return clip(wire.Message)
}

// clip bounds what a server makes us repeat, and keeps it on one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + " …"
	}
	return s
}

// Redact takes the key out of words that somebody else wrote.
func (a *API) Redact(s string) string {
	a.once.Do(func() { a.hidden = scrub.New([]byte(a.Key)) })
	return a.hidden.String(s)
}

// BrokeOff is the error of a stream in which the server reports one.
func (a *API) BrokeOff(code fsys.Code, event []byte) error {
	return fsys.E(code, "the server broke off: "+a.Message(event))
}

// NotAnAnswer is the error of a server that does not speak its API.
func NotAnAnswer(err error) error {
	return &fsys.Error{Code: fsys.Unavailable, Reason: "the server's response is not what it should be", Err: err}
}
