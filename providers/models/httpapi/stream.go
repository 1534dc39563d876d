package httpapi

import (
	"agent9/fsys"
	"agent9/providers/models"
)

// A Stream is one answer as far as it came.
type Stream struct {
	Req  models.Request
	Emit func(models.Chunk) error

	Prompt *models.Usage // what the server counted of the input; nil if it did not, or not yet
	Usage  *models.Usage // all that the server counted; nil if it did not, or not yet
	Done   bool          // the server said that this is all

	ID, Model string // the server's names, for the first chunk
	Percent   int64  // as in Usage

	size     int
	counted  int  // of size, when Usage was
	finished bool // a choice said why it ended
}

// Send emits c, unless there is nothing in it.
func (s *Stream) Send(c models.Chunk) error {
	s.finished = s.finished || c.Finish != ""
	grown := int(c.Bytes())
	s.size += grown
	if grown == 0 && c.Finish == "" && len(c.ToolCalls) == 0 && len(c.Thinking) == 0 && c.Result == nil {
		return nil
	}
	c.ID, c.Model, s.ID, s.Model = s.ID, s.Model, "", ""
	return s.Emit(c)
}

// Count takes what the server says that it was until here. The last word counts.
func (s *Stream) Count(u models.Usage) { s.Usage, s.counted = &u, s.size }

// End returns what the stream that ended with err has used. One that ended
// without saying why was cut off.
func (s *Stream) End(err error) (models.Usage, error) {
	if err == nil && !s.Done && !s.finished {
		err = fsys.E(fsys.Unavailable, "the server ended the answer in the middle")
	}
	usage := models.Estimate(s.Req, s.size)
	if s.Prompt != nil {
		usage.Input, usage.Cached, usage.Written = s.Prompt.Input, s.Prompt.Cached, s.Prompt.Written
	}
	if s.Usage != nil && *s.Usage != (models.Usage{}) { // which would say that nothing was done
		usage = *s.Usage
		if s.size > s.counted { // that was not all
			usage.Output += int64(s.size - s.counted)
			usage.Estimated = true
		}
	}
	usage.Percent = s.Percent
	if err != nil {
		return usage, err
	}
	return usage, s.Emit(models.Chunk{Usage: &usage})
}
