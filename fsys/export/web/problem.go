package web

import (
	"errors"
	"net/http"
	"strings"

	"agent9/fsys"
)

// A problem is an error in the form of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
}

// statusError has a status of its own besides the code.
type statusError struct {
	status int
	error
}

func (e *statusError) Unwrap() error { return e.error }

func failed(status int, code fsys.Code, reason string) error {
	return &statusError{status, fsys.E(code, reason)}
}

// StatusOf returns the HTTP status that err is answered with.
func StatusOf(err error) int {
	var e *statusError
	if errors.As(err, &e) {
		return e.status
	}
	return fsys.CodeOf(err).HTTP()
}

// unauthorized is the one answer to everybody who proves nothing.
var unauthorized = failed(http.StatusUnauthorized, fsys.Permission, "a valid token is needed: Authorization: Bearer a9_…; make one with agentctl token")

// Refuse answers with err.
func Refuse(w http.ResponseWriter, err error) {
	code, status := fsys.CodeOf(err), StatusOf(err)
	h := w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Length", "Content-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		if h.Get("Allow") == "" {
			h.Set("Allow", strings.Join(Methods, ", "))
		}
	}
	w.WriteHeader(status)
	w.Write(fsys.Line(problem{"about:blank", code.Text(), status, fsys.ReasonOf(err), code.String()}))
}
