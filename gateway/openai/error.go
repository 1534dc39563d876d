package openai

import (
	"context"
	"errors"
	"net/http"

	"agent9/fsys"
	"agent9/fsys/export/web"
)

// A failure is an error as OpenAI's clients read it.
type failure struct {
	Error failureBody `json:"error"`
}

type failureBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// needsApproval is an error that an approval would have prevented.
type needsApproval struct{ error }

func (e *needsApproval) Unwrap() error { return e.error }

const (
	badRequest  = "invalid_request_error"
	serverError = "server_error"
)

// words are what OpenAI calls a class of errors; the others are bad requests
// or errors of the server, by their status, with our own code.
var words = map[fsys.Code]struct {
	status     int
	kind, code string
}{
	fsys.Exhausted:   {http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"},
	fsys.Busy:        {http.StatusTooManyRequests, "requests", "rate_limit_exceeded"},
	fsys.NotExist:    {http.StatusNotFound, badRequest, "model_not_found"},
	fsys.Exist:       {http.StatusConflict, badRequest, "idempotency_key_reused"},
	fsys.Unsupported: {http.StatusBadRequest, badRequest, "unsupported"},
}

// explain returns how err is answered, and whether it is of use to ask again.
func explain(err error) (status int, f failure, again bool) {
	code := fsys.CodeOf(err)
	status = web.StatusOf(err)
	b := failureBody{Message: fsys.ReasonOf(err), Type: badRequest, Code: code.String()}
	if status >= http.StatusInternalServerError {
		b.Type = serverError
	}
	if b.Message == "" {
		b.Message = code.Text()
	}
	w, named := words[code]
	var approval *needsApproval
	switch {
	case errors.As(err, &approval):
		status, b.Code = http.StatusConflict, "approval_required"
	case status == http.StatusUnauthorized:
		b.Code = "invalid_api_key"
	case named:
		status, b.Type, b.Code = w.status, w.kind, w.code
		again = code == fsys.Busy
	}
	return status, failure{b}, again
}

// refuse answers with err.
func refuse(w http.ResponseWriter, err error) {
	status, f, again := explain(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if !again {
		// The job has been tried again where that was of use; what it has
		// cost should not be spent twice.
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(status)
	w.Write(fsys.Line(f))
}

// fail answers with err, also in the middle of a stream.
func (c *call) fail(err error) {
	ctx := c.s.R.Context()
	if cause := context.Cause(ctx); cause != nil && fsys.CodeOf(err) == fsys.Canceled {
		err = cause
	}
	if !c.s.Answered() {
		refuse(c.s.W, err)
		return
	}
	if ctx.Err() == nil {
		_, f, _ := explain(err)
		if c.send(fsys.Line(f)) == nil && c.s.Flush() == nil {
			return // clients take it for the end
		}
	}
	c.s.Fail(err)
}
