package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// A Model answers prompts with jobs.
type Model struct {
	Jobs    fsys.Node // the tree of compute, whose jobs Account pays
	Account *budget.Account
	Name    string // of the model; empty: the one that jobs have by default
	Prompt  string // the system prompt; may be empty
}

// Answer answers a prompt of a session. Each attempt
// is a job of its own, with an idempotency key: what one has cost is paid
// once, and one that has ended, or waits, when the program begins again is
// gone on with.
func (m Model) Answer(ctx context.Context, t Turn, out *Answer) (budget.Micros, error) {
	ctx = fsys.WithCaller(budget.With(fsys.WithToken(ctx, t.Token), m.Account), t.Author)
	for {
		job, found, err := m.jobOf(ctx, t, out.Attempt())
		if err != nil {
			return 0, err
		}
		if !found {
			return job.give(ctx, out)
		}
		s, err := job.status(ctx)
		if err != nil {
			return 0, err
		}
		if !s.cutOff() {
			return job.give(ctx, out)
		}
		if err := out.Again(ctx); err != nil {
			return s.Cost, err
		}
	}
}

// jobOf returns the job of an attempt, and whether it was there. Otherwise it
// is submitted.
func (m Model) jobOf(ctx context.Context, t Turn, attempt int) (job sessionJob, found bool, err error) {
	key := fmt.Sprintf("session-%d-%d-%d", t.Session, t.Prompt, attempt)
	if job.dir, err = fsys.WalkPath(ctx, m.Jobs, "jobs/"+key); err == nil || !errors.Is(err, fsys.NotExist) {
		return job, true, err
	}
	req, err := m.chat(ctx, t)
	if err != nil {
		return job, false, err
	}
	req.Key = key
	number, err := fsys.Converse(ctx, m.Jobs, "new", fsys.Line(req))
	if err == nil {
		job.dir, err = fsys.WalkPath(ctx, m.Jobs, "jobs/"+strings.TrimSpace(string(number)))
	}
	return job, false, err
}

// sessionJob is the directory of the job that answers a prompt.
type sessionJob struct{ dir fsys.Node }

// jobStatus is what matters here of a job's status.
type jobStatus struct {
	State string        `json:"state"`
	Cost  budget.Micros `json:"cost_microusd"`
	Error struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
	} `json:"error"`
}

func (j sessionJob) status(ctx context.Context) (s jobStatus, err error) {
	b, err := fsys.ReadFile(ctx, j.dir, "status")
	if err != nil {
		return s, err
	}
	return s, fsys.Wrap(fsys.Internal, "the status of a job", json.Unmarshal(b, &s))
}

// cutOff reports whether a job that an earlier daemon began ended with that.
func (s jobStatus) cutOff() bool {
	return s.State == Cancelled || s.State == Failed && s.Error.Code == fsys.Canceled.String()
}

// outcome is why the job did not do what it was to, or nil.
func (s jobStatus) outcome() error {
	if s.State == Done {
		return nil
	}
	return fsys.E(fsys.CodeNamed(s.Error.Code, fsys.Unavailable), s.Error.Reason)
}

// endPatience is how long a job that is cancelled may take to end before its
// cost counts as unknown to the session; the account knows it in any case.
const endPatience = 5 * time.Second

// give gives out what the job answers, less what out has had of it, and
// returns what that has cost.
func (j sessionJob) give(ctx context.Context, out *Answer) (budget.Micros, error) {
	err := j.copy(ctx, out)
	if err == nil {
		_, err = fsys.ReadFile(ctx, j.dir, "result") // which waits for the end
	}
	if err != nil {
		var cancel func()
		ctx, cancel = j.abandon(ctx)
		defer cancel()
	}
	s, failed := j.status(ctx)
	if err == nil {
		err = failed
	}
	if err == nil {
		err = s.outcome()
	}
	return s.Cost, err
}

// abandon ends the job, because what is to take its answer does not, and waits
// until it has ended, or for as long as that may take. A job that the end of
// the daemon cuts off is ended by that.
func (j sessionJob) abandon(ctx context.Context) (context.Context, context.CancelFunc) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	if !CutOff(ctx) {
		fsys.WriteFile(end, j.dir, "ctl", []byte("cancel")) // refused if it has ended
		fsys.ReadFile(end, j.dir, "result")                 // the time that may take is over otherwise
	}
	return end, cancel
}

// copy copies the output of the job to out, as it comes.
func (j sessionJob) copy(ctx context.Context, out *Answer) error {
	h, err := fsys.OpenPath(ctx, j.dir, "output", fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	b := make([]byte, 64<<10)
	for off := out.Given(); ; {
		n, err := fsys.ReadAt(ctx, h, b, off)
		off += int64(n)
		if _, failed := out.Write(b[:n]); failed != nil {
			return failed
		}
		switch {
		case errors.Is(err, io.EOF), err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
	}
}
