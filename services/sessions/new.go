package sessions

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// beginning is a request to new.
type beginning struct {
	Title   string `json:"title"`
	Profile string `json:"profile"`
}

func parseBeginning(req []byte) (b beginning, err error) {
	if len(req) == 0 || req[0] != '{' {
		b.Title = string(req)
	} else {
		if err := fsys.Strictly(req, &b); err != nil {
			return b, fsys.E(fsys.Invalid, err.Error()+"; a new session takes title and profile")
		}
	}
	b.Title = strings.TrimSpace(b.Title)
	if len(b.Title) > fsys.MaxName || !utf8.ValidString(b.Title) || strings.ContainsAny(b.Title, "\n\r\x00") {
		return b, fsys.E(fsys.Invalid, fmt.Sprintf("a title is one line of text of up to %d bytes", fsys.MaxName))
	}
	return b, nil
}

// begins refuses a session whose first prompt would be refused.
func (s *Service) begins(ctx context.Context) error {
	if err := s.opts.Working(); err != nil || s.opts.Admit == nil {
		return err
	}
	return s.opts.Admit(ctx)
}

// create is a request to new.
func (s *Service) create(ctx context.Context, req []byte) ([]byte, error) {
	b, err := parseBeginning(req)
	if err != nil {
		return nil, err
	}
	config := s.config()
	if b.Profile != "" && !slices.Contains(config.Profiles, b.Profile) {
		return nil, fsys.E(fsys.Invalid, "the configuration has no profile "+strconv.Quote(b.Profile)+" for sessions; there are: "+strings.Join(config.Profiles, " "))
	}
	if err := s.look(ctx); err != nil { // what is over makes room
		return nil, err
	}
	var n int64
	err = s.st.Update(ctx, func(tx store.Store) error {
		n, err = s.put(ctx, tx, b, config)
		return err
	})
	if err != nil {
		return nil, err
	}
	return work.Reply(n), nil
}

// room refuses one more session.
func (t *totals) room(config Config) error {
	if t.Open < int64(config.Open) {
		return nil
	}
	return fsys.E(fsys.Busy, fmt.Sprintf("there are %d sessions that have not ended; write end to the ctl of some", t.Open))
}

// put records a new session and returns its number.
func (s *Service) put(ctx context.Context, tx store.Store, b beginning, config Config) (int64, error) {
	t, err := loadTotals(ctx, tx)
	if err != nil {
		return 0, err
	}
	if err := t.room(config); err != nil {
		return 0, err
	}
	n, err := work.Next(ctx, tx, nextKey)
	if err != nil {
		return 0, err
	}
	now, by := s.opts.Now(), fsys.CallerOf(ctx)
	line := fsys.Line(Line{N: 1, Time: fsys.Stamp(now), Role: System, Event: "created", Author: by, Text: b.Title})
	r := record{
		Number: n, Title: b.Title, Profile: b.Profile, By: by, Created: now,
		Active: now, Ends: now.Add(config.Idle), Lines: 1, Size: int64(len(line)),
	}
	log, err := store.OpenLog(ctx, store.Sub(s.st, transcriptView(n)))
	if err != nil {
		return 0, err
	}
	if err := log.Append(tx, line); err != nil {
		return 0, err
	}
	if err := put(ctx, tx, &record{}, &r); err != nil {
		return 0, err
	}
	due := r.due()
	store.After(tx, func() { s.arm(due) })
	if err := s.opts.Note.Record(tx, "sessions.created", told{Session: n, By: by}); err != nil {
		return 0, err
	}
	return n, s.sweep(ctx, tx, config, now)
}
