package sessions

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// commands are the verbs of ctl.
var commands = []struct {
	verb, help string
	argument   bool // it may have one
	do         func(c *change, by fsys.Caller, argument string) error
}{
	{"pause", "begin no more prompts; the one that is being answered goes on", false, (*change).pause},
	{"resume", "go on after pause, or after the end", false, (*change).resume},
	{"cancel", "[N] end the answer that comes now, or take prompt N away", true, (*change).cancelPrompt},
	{"end", "end the session, with what runs and waits in it", false, (*change).end},
}

func verbs(context.Context) ([]byte, error) {
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(c.verb + "\t" + c.help + "\n")
	}
	return []byte(b.String()), nil
}

// control performs a command.
func (x *session) control(ctx context.Context, words []string) ([]byte, error) {
	if err := x.s.look(ctx); err != nil {
		return nil, err
	}
	var known []string
	for _, verb := range commands {
		if known = append(known, verb.verb); verb.verb != words[0] || len(words) > 2 || len(words) == 2 && !verb.argument {
			continue
		}
		argument := strings.Join(words[1:], "")
		return nil, x.change(ctx, func(c *change) error {
			if c.Removing {
				return fsys.NotExist
			}
			return verb.do(c, fsys.CallerOf(ctx), argument)
		})
	}
	return nil, fsys.E(fsys.Invalid, "unknown command "+strings.Join(words, " ")+"; there are: "+strings.Join(known, ", "))
}

// alive refuses what needs a session that goes on.
func (c *change) alive() error {
	if c.ended() || c.Ending != "" {
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d has ended; resume opens it again", c.Number))
	}
	return nil
}

func (c *change) pause(by fsys.Caller, _ string) error {
	if err := c.alive(); err != nil || c.Paused {
		return err
	}
	c.Paused = true
	c.touch()
	c.say(Line{Role: System, Event: "paused", Author: by})
	return c.note("paused", told{By: by})
}

func (c *change) resume(by fsys.Caller, _ string) error {
	switch {
	case c.Ending != "":
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d is ending; resume it when it has", c.Number))
	case !c.Paused && !c.ended():
		return nil
	case c.ended():
		t, err := loadTotals(c.ctx, c.tx)
		if err != nil {
			return err
		}
		if err := t.room(c.config); err != nil {
			return err
		}
	}
	c.Paused, c.Ended, c.Why = false, time.Time{}, ""
	c.touch()
	c.say(Line{Role: System, Event: "resumed", Author: by})
	return c.note("resumed", told{By: by})
}

func (c *change) cancelPrompt(by fsys.Caller, argument string) error {
	if err := c.alive(); err != nil {
		return err
	}
	c.touch()
	why := "cancelled"
	if by != "" {
		why += " by " + string(by)
	}
	if argument == "" {
		if c.Running == 0 {
			return fsys.E(fsys.Busy, "no prompt is being answered")
		}
		return c.cancel(why)
	}
	n, err := strconv.ParseInt(argument, 10, 64)
	switch {
	case err != nil || n <= 0:
		return fsys.E(fsys.Invalid, "cancel takes the number of a prompt")
	case n > c.Prompts:
		return fsys.E(fsys.NotExist, fmt.Sprintf("session %d has no prompt %d", c.Number, n))
	case n == c.Running:
		return c.cancel(why)
	}
	key := promptKey(c.Number, n)
	line, err := store.Forgiving(c.tx).Get(c.ctx, key)
	if store.IsDamaged(err) {
		line, err = nil, nil
	}
	if missing(err) {
		return fsys.E(fsys.Busy, fmt.Sprintf("prompt %d does not wait any longer", n))
	}
	if err != nil {
		return err
	}
	return c.forgo(store.Pair{Key: key, Value: line}, by, why)
}

func (c *change) end(by fsys.Caller, _ string) error {
	if c.ended() || c.Ending != "" {
		return nil
	}
	c.touch()
	return c.endAt(c.now, by, "the session was ended")
}
