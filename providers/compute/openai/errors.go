package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"agent9/fsys"
)

// A refusal is a response that is an error, as explained to people.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

// explain turns the outcome of a request into an error with a Code and a
// reason. ctx is the request's: its end is the first explanation.
func (p *Provider) explain(ctx context.Context, res *http.Response, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case res != nil && res.StatusCode >= 400:
		// The library has read the body and left it to be read again.
		body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		res.Body.Close()
		return p.refused(res.StatusCode, body)
	case err == nil:
		return nil
	}
	return p.broken(err)
}

// broken explains a connection that failed.
func (p *Provider) broken(err error) error {
	what := p.info.Target + ": "
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		what += "nothing answers there (connection refused)"
	case errors.As(err, &dns):
		what += "there is no such host"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		what += "the server ended the connection in the middle"
	case errors.As(err, &timeout) && timeout.Timeout():
		return &fsys.Error{Code: fsys.Timeout, Reason: what + "the server does not answer", Err: err}
	default:
		what += p.redact(err.Error())
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: what, Err: err}
}

// refused explains a response with an error status.
func (p *Provider) refused(status int, body []byte) error {
	r := &refusal{status, p.redact(message(body))}
	if r.message == "" {
		r.message = http.StatusText(status)
	}
	e := &fsys.Error{Code: fsys.Unavailable, Reason: "the server says: " + r.message, Err: r}
	switch {
	case status == http.StatusUnauthorized && p.key == "":
		e.Reason = "the server wants a key; set " + p.name
	case status == http.StatusUnauthorized:
		// What servers say here has parts of the key in it.
		e.Reason = "the key was refused; see " + p.name
	case status == http.StatusNotFound:
		e.Code = fsys.NotExist
	case status == http.StatusRequestEntityTooLarge:
		e.Code = fsys.TooLarge
	case status == http.StatusTooManyRequests:
		e.Code = fsys.Busy
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		e.Code = fsys.Timeout
	case status == http.StatusForbidden, status == http.StatusPaymentRequired:
	case status < 500:
		e.Code = fsys.Invalid
	}
	return e
}

// message finds the words for people in the body of an error.
func message(body []byte) string {
	var wire struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &wire) != nil {
		if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
			return clip(text)
		}
		return "" // a page of HTML
	}
	for _, raw := range []json.RawMessage{wire.Error, wire.Detail} {
		var text string
		var object struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return clip(text)
		}
		if json.Unmarshal(raw, &object) == nil && object.Message != "" {
			return clip(object.Message)
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

// redact takes the key out of words that somebody else wrote.
func (p *Provider) redact(s string) string {
	if p.key == "" {
		return s
	}
	return strings.ReplaceAll(s, p.key, "(the key)")
}
