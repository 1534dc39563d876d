package web

import (
	"net/http"
	"time"
)

// A writer gives the client so much time for each part of the answer, so that
// one that does not read holds nothing.
type writer struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	status   int
	over     func() bool // whether the caller's grant has ended; nil before the caller is known
}

var _ http.Flusher = (*writer)(nil)

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin is called before something goes out with status.
func (w *writer) begin(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.control.SetWriteDeadline(time.Now().Add(w.patience))
}

func (w *writer) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.status < http.StatusBadRequest && w.over != nil && w.over() {
		return 0, errRevoked
	}
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// setType says what is sent, if nothing is yet.
func (w *writer) setType(mediaType string) {
	if w.status == 0 {
		w.Header().Set("Content-Type", mediaType)
	}
}

// FlushError sends what was written.
func (w *writer) FlushError() error {
	w.begin(http.StatusOK)
	return w.control.Flush()
}

func (w *writer) Flush() { w.FlushError() }
