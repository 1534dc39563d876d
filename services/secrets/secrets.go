// Package secrets keeps what an agent's services need and nobody may read,
// such as the token for a repository:
//
//	<name>   Message: a write sets the value, less one newline at its end, and
//	         replaces what it was; nobody can read it; rm removes it
//
// The value acts when the file is closed in order, as any text does. It is
// sealed before it is stored, bound to its agent and its name, and opened only
// for a service of the daemon that asks for it by name, for a use and a host to
// which the configuration binds it; see [Binding]. It is in no event, no log and
// no error. Names are listed: an agent may know what it can refer to.
//
// Events: secret.set and secret.removed, with the name.
package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/scrub"
	"agent9/store"
)

// A Sealer encrypts what is stored. Binding is what Open must be given again.
type Sealer interface {
	Seal(secret []byte, binding ...string) []byte
	Open(sealed []byte, binding ...string) ([]byte, error)
}

// Config is what a Service works with.
type Config struct {
	Store store.Updater // this service's own
	Box   Sealer
	Agent string
	Note  store.Note // may be nil
	// Bindings is what the configuration in force says of each secret; see
	// [ParseBinding]. A secret that is not in it is used by nobody.
	Bindings func() map[string]json.RawMessage
	Now      func() time.Time
}

// A Service is the secrets of one agent.
type Service struct {
	config Config
	root   *fsys.Table

	mu       sync.Mutex
	expected map[string]int // handles of those that were made and may have no value yet
}

var _ fsys.FileService = (*Service)(nil)

// The most that there is of them, and of one.
const (
	maxSecrets = 1000
	maxValue   = 16 << 10
)

// Open returns the secrets that are kept in the store. It reads nothing.
func Open(config Config) *Service {
	s := &Service{config: config}
	s.root = fsys.NewTableWith(files{s})
	return s
}

// Root returns the files.
func (s *Service) Root() fsys.Node { return s.root }

// expect counts the handles that name was made by.
func (s *Service) expect(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected == nil {
		s.expected = make(map[string]int)
	}
	if s.expected[name] += n; s.expected[name] == 0 {
		delete(s.expected, name)
	}
}

func (s *Service) expects(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expected[name] > 0
}

// record is what the store has of a secret, at its name.
type record struct {
	Version int       `json:"version"`
	Set     time.Time `json:"set"`
	Sealed  []byte    `json:"sealed"`
}

const recordVersion = 1

// Get returns the value of the secret called name, which the caller clears, if
// it is bound to use and to the host of the URL target, to which it is then
// sent and to no other. target is empty if the value is not sent by the daemon.
func (s *Service) Get(ctx context.Context, name string, use Use, target string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if _, err := s.config.Store.Get(ctx, name); errors.Is(err, fsys.NotExist) {
		return nil, fsys.E(fsys.NotExist, "there is no secret "+name+"; the operator writes it to secrets/"+name)
	}
	var b Binding
	if doc, ok := s.config.Bindings()[name]; ok {
		var err error
		if b, err = ParseBinding(doc); err != nil {
			return nil, fsys.Wrap(fsys.Invalid, "config: secrets: "+name, err)
		}
	}
	if err := b.allows(name, use, target); err != nil {
		return nil, err
	}
	return open(ctx, s.config.Store, s.config.Box, s.config.Agent, name)
}

func open(ctx context.Context, st store.Store, box Sealer, agent, name string) ([]byte, error) {
	rec, err := store.GetJSON[record](ctx, st, name)
	if err != nil {
		return nil, err
	}
	if rec.Version != recordVersion {
		return nil, fsys.E(fsys.Internal, "the secret "+name+" is from another version of this program")
	}
	value, err := box.Open(rec.Sealed, agent, name)
	return value, fsys.Wrap(fsys.Internal, "the secret "+name, err)
}

// told is the detail of every event.
type told struct {
	Secret string      `json:"secret"`
	By     fsys.Caller `json:"by,omitempty"`
}

// set stores value, and clears it.
func (s *Service) set(ctx context.Context, name string, value []byte) error {
	defer clear(value)
	value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	switch {
	case len(value) == 0:
		return fsys.E(fsys.Invalid, "a secret cannot be empty; rm removes it")
	case len(value) < scrub.Shortest:
		return fsys.E(fsys.Invalid, fmt.Sprintf("a secret has at least %d bytes: a shorter one cannot be told from other text, and taken out of what programs print", scrub.Shortest))
	}
	rec := record{recordVersion, s.config.Now().UTC(), s.config.Box.Seal(value, s.config.Agent, name)}
	return s.config.Store.Update(ctx, func(tx store.Store) error {
		if err := s.room(ctx, tx, name); err != nil {
			return err
		}
		if err := store.PutJSON(ctx, tx, name, rec); err != nil {
			return err
		}
		return s.config.Note.Record(tx, "secret.set", told{name, fsys.CallerOf(ctx)})
	})
}

// room refuses one secret too many.
func (s *Service) room(ctx context.Context, tx store.Store, name string) error {
	if _, err := tx.Get(ctx, name); err == nil || !errors.Is(err, fsys.NotExist) {
		return err
	}
	page, err := tx.List(ctx, "", "", maxSecrets)
	if err == nil && len(page) == maxSecrets {
		err = fsys.E(fsys.NoSpace, fmt.Sprintf("an agent has at most %d secrets", maxSecrets))
	}
	return err
}

func (s *Service) remove(ctx context.Context, name string) error {
	return s.config.Store.Update(ctx, func(tx store.Store) error {
		if _, err := tx.Get(ctx, name); err != nil {
			return err
		}
		if err := tx.Delete(ctx, name); err != nil {
			return err
		}
		return s.config.Note.Record(tx, "secret.removed", told{name, fsys.CallerOf(ctx)})
	})
}

// Reseal copies every secret of one agent to another one's, which may be
// sealed in another box.
func Reseal(ctx context.Context, from store.Store, opens Sealer, agent string, to store.Store, seals Sealer, newAgent string) error {
	for p, err := range store.All(ctx, from, "") {
		if err != nil {
			return err
		}
		if err := checkName(p.Key); err != nil {
			return err
		}
		value, err := open(ctx, from, opens, agent, p.Key)
		if err != nil {
			return err
		}
		rec, err := store.GetJSON[record](ctx, from, p.Key)
		if err == nil {
			rec.Sealed = seals.Seal(value, newAgent, p.Key)
			err = store.PutJSON(ctx, to, p.Key, rec)
		}
		clear(value)
		if err != nil {
			return err
		}
	}
	return nil
}
