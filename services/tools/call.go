package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// admit refuses a call before there are arguments.
func (x *server) admit(ctx context.Context) error {
	if err := x.s.opts.Working(); err != nil {
		return err
	}
	if x.config.Price > 0 {
		return budget.Admit(ctx)
	}
	return nil
}

// called and answered are the events of a call.
type called struct {
	Call   string      `json:"call"`
	Server string      `json:"server"`
	Tool   string      `json:"tool"`
	By     fsys.Caller `json:"by,omitempty"`
}

type answered struct {
	Call   string        `json:"call"`
	Server string        `json:"server"`
	Tool   string        `json:"tool"`
	Ms     int64         `json:"ms"`
	Bytes  int           `json:"bytes"`
	Failed bool          `json:"tool_failed,omitempty"` // says the tool
	Cost   budget.Micros `json:"cost_microusd,omitempty"`
	Code   string        `json:"code,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// call calls a tool and returns its result as a line of JSON.
func (x *server) call(ctx context.Context, tool string, req []byte) ([]byte, error) {
	var args map[string]json.RawMessage
	if json.Unmarshal(req, &args) != nil || args == nil {
		return nil, fsys.E(fsys.Invalid, "the arguments are a JSON object, such as {}; the file schema beside this one says which there are")
	}
	if err := x.s.opts.Working(); err != nil {
		return nil, err
	}
	if err := x.enter(); err != nil {
		return nil, err
	}
	defer x.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, x.config.timeout(), fsys.E(fsys.Timeout, "the tool did not answer within "+x.config.timeout().String()))
	defer cancel()
	session, release, err := x.use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	b := begun{id: rand.Text()[:10], server: x.name, tool: tool, price: x.config.Price}
	if err := x.s.begin(ctx, &b); err != nil {
		return nil, err
	}
	began := x.s.opts.Now()
	result, err := session.Call(ctx, tool, req)
	if err == nil {
		x.succeeded()
	}
	if noted := x.s.end(ctx, b, result, err, x.s.opts.Now().Sub(began)); err == nil {
		err = noted
	}
	if err != nil {
		return nil, err
	}
	return append(result, '\n'), nil
}

// begun is a call that is recorded as under way.
type begun struct {
	id, server, tool string
	price            budget.Micros
	hold             *budget.Hold
}

// begin records a call, with its money, before anything happens.
func (s *Service) begin(ctx context.Context, b *begun) error {
	return s.opts.Store.Update(ctx, func(tx store.Store) error {
		if b.price > 0 {
			var err error
			if b.hold, err = budget.Take(ctx, tx, b.price, "tool "+b.server+"/"+short(b.tool)); err != nil {
				return err
			}
			if err := tx.Put(ctx, b.hold.ID(), nil); err != nil {
				return err
			}
		}
		return s.opts.Note.Record(tx, "tool.called", called{b.id, b.server, short(b.tool), fsys.CallerOf(ctx)})
	})
}

// end records what came of a call. One that the server refused costs nothing.
func (s *Service) end(ctx context.Context, b begun, result []byte, failed error, took time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	return s.opts.Store.Update(ctx, func(tx store.Store) error {
		a := answered{Call: b.id, Server: b.server, Tool: short(b.tool), Ms: took.Milliseconds(), Bytes: len(result)}
		var says struct {
			IsError bool `json:"isError"`
		}
		if failed != nil {
			a.Code, a.Reason = fsys.CodeOf(failed).String(), fsys.ReasonOf(failed)
		} else {
			json.Unmarshal(result, &says) // what is not JSON does not say so
			a.Failed = says.IsError
		}
		if failed == nil || fsys.CodeOf(failed) != fsys.Invalid {
			a.Cost = b.price
		}
		if b.hold != nil {
			if err := b.hold.Settle(tx, a.Cost, a.Reason); err != nil {
				return err
			}
			if err := tx.Delete(ctx, b.hold.ID()); err != nil {
				return err
			}
		}
		return s.opts.Note.Record(tx, "tool.answered", a)
	})
}

// errInterrupted is what the ledger says of calls that were cut off.
const errInterrupted = "interrupted"

// settleAll settles the calls that an earlier daemon did not end.
func (s *Service) settleAll(ctx context.Context) error {
	for pair, err := range store.All(ctx, s.opts.Store, "") {
		if err != nil {
			return err
		}
		hold, err := s.opts.Account.Resume(ctx, pair.Key)
		if err != nil && !errors.Is(err, fsys.NotExist) {
			return err
		}
		err = s.opts.Store.Update(ctx, func(tx store.Store) error {
			if hold != nil {
				if err := hold.Settle(tx, hold.Max(), errInterrupted); err != nil {
					return err
				}
			}
			return tx.Delete(ctx, pair.Key)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Interrupted reports whether there are calls in st that Open would settle.
func Interrupted(ctx context.Context, st store.Store) (bool, error) {
	page, err := st.List(ctx, "", "", 1)
	return len(page) > 0, err
}
