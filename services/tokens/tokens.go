// Package tokens hands out capability tokens: whoever has the secret may
// attach to one agent's tree, with the rights and until the time that the
// token says.
//
//	<id>   Text, JSON: id, agent, rights, expires, created, label, from of one live token; rm revokes it
//
// A secret is `a9_` and 256 random bits in base64url. It is shown once, when
// it is issued; what is stored is its SHA-256. A token's id is the beginning
// of that hash and is no secret.
//
// A token ends when the clock says that its time has come, and stays ended: it
// is removed then, so that a clock that is set back later does not bring it
// back. While [Tokens.Watch] runs that is within a minute also if the clock is
// set forward.
package tokens

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/due"
)

// Tokens are the tokens of a host. They are safe for concurrent use.
type Tokens struct {
	st    store.Updater
	opts  Options
	live  live
	root  *fsys.Table
	timer *due.Timer // of Watch
}

var _ fsys.FileService = (*Tokens)(nil)

// Options of tokens. Each may be nil.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Note records an event inside the transaction of tx: token.issued and
	// token.revoked, with the [Grant] as detail.
	Note store.Note
}

// Prefix begins every secret.
const Prefix = "a9_"

const (
	secretBytes = 32
	idDigits    = 16
)

// Unknown is what [Tokens.Lookup] says of a secret that opens nothing, and it
// says no more.
var Unknown = fsys.E(fsys.Permission, "this token is unknown, has expired or was revoked")

// Over is what everything that a token has opened says once it has ended: what
// was written but has not acted does not act any more.
var Over = fsys.E(fsys.Permission, "the token was revoked or has expired")

// Open returns the tokens in st, and sweeps those that expired.
func Open(ctx context.Context, st store.Updater, opts Options) (*Tokens, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	t := &Tokens{st: st, opts: opts}
	t.timer = due.New(opts.Now, t.lapse)
	t.root = fsys.NewTableWith(files{t})
	if err := st.Update(ctx, func(tx store.Store) error { return t.sweep(ctx, tx) }); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tokens) Root() fsys.Node { return t.root }

// Issue makes a token for what g says; it chooses g's ID and Created.
func (t *Tokens) Issue(ctx context.Context, g Grant) (secret, id string, err error) {
	err = t.st.Update(ctx, func(tx store.Store) error {
		secret, id, err = t.IssueIn(ctx, tx, g)
		return err
	})
	if err != nil {
		return "", "", err
	}
	return secret, id, nil
}

// IssueIn is [Tokens.Issue] in the transaction of tx, so that who issues can
// see to it there that the agent exists. The secret is good when that is
// committed.
func (t *Tokens) IssueIn(ctx context.Context, tx store.Store, g Grant) (secret, id string, err error) {
	now := t.opts.Now()
	if err := g.check(now); err != nil {
		return "", "", err
	}
	tx = store.In(tx, t.st)
	if err := t.sweep(ctx, tx); err != nil {
		return "", "", err
	}
	if g.From = fsys.TokenOf(ctx); g.From != "" {
		if err := t.narrow(ctx, tx, &g); err != nil {
			return "", "", err
		}
	}
	random := make([]byte, secretBytes)
	rand.Read(random) // never fails
	secret = Prefix + base64.RawURLEncoding.EncodeToString(random)
	hash, _ := hashOf(secret)
	g.ID = hash[:idDigits]
	g.Created = stamp(now)
	g.Expires = stamp(g.Expires)
	for _, key := range indexes(g) {
		if err := tx.Put(ctx, key, []byte(hash)); err != nil {
			return "", "", err
		}
	}
	if err := store.PutJSON(ctx, tx, byHash+hash, g); err != nil {
		return "", "", err
	}
	store.After(tx, t.poke)
	return secret, g.ID, t.opts.Note.Record(tx, "token.issued", g)
}

// narrow refuses g, which is asked for with a token, if it may more than that, and
// has it end no later.
func (t *Tokens) narrow(ctx context.Context, tx store.Store, g *Grant) error {
	_, from, err := t.find(ctx, tx, g.From)
	switch {
	case errors.Is(err, fsys.NotExist):
		return Over
	case err != nil:
		return err
	case !from.covers(*g):
		return fsys.E(fsys.Permission, "a token makes none that may more than it: its rights are "+from.Rights.String())
	}
	if !from.Expires.IsZero() && (g.Expires.IsZero() || g.Expires.After(from.Expires)) {
		g.Expires = from.Expires
	}
	return nil
}

// Lookup returns what secret opens, or [Unknown]. done is closed when the
// token expires, if [Tokens.Watch] runs, or is revoked, and when ctx, which is
// that of the session that the token opens, ends: until then the token is
// watched for it.
func (t *Tokens) Lookup(ctx context.Context, secret string) (g Grant, done <-chan struct{}, err error) {
	hash, ok := hashOf(secret)
	if !ok {
		return Grant{}, nil, Unknown
	}
	return t.follow(ctx, hash)
}

// Follow is [Tokens.Lookup] of the token with this id, for what was begun with
// it; [Over] if that has ended.
func (t *Tokens) Follow(ctx context.Context, id string) (g Grant, done <-chan struct{}, err error) {
	hash, _, err := t.find(ctx, t.st, id)
	if err == nil {
		g, done, err = t.follow(ctx, hash)
	}
	if errors.Is(err, fsys.NotExist) || errors.Is(err, Unknown) {
		err = Over
	}
	return g, done, err
}

// follow is Lookup by what the token is stored under.
func (t *Tokens) follow(ctx context.Context, hash string) (g Grant, done <-chan struct{}, err error) {
	// The watch begins before the look, so that it misses no revocation.
	s := t.live.watch(ctx, hash)
	g, err = store.GetJSON[Grant](ctx, t.st, byHash+hash)
	switch {
	case errors.Is(err, fsys.NotExist):
		err = Unknown
	case err == nil && g.expired(t.opts.Now()):
		t.expire(ctx) // if that cannot be stored, Watch says so
		err = Unknown
	}
	if err != nil {
		s.leave()
		return Grant{}, nil, err
	}
	t.live.endAt(hash, g.Expires)
	return g, s.ctx.Done(), nil
}

// Live returns [Over] if the token with this id has ended. tx is the transaction
// of who asks; nil: there is none.
func (t *Tokens) Live(ctx context.Context, tx store.Store, id string) error {
	_, _, err := t.May(ctx, tx, id, "/")
	return err
}

// May is Live, and says what the token may do at a mount of an agent's tree.
func (t *Tokens) May(ctx context.Context, tx store.Store, id, mount string) (read, write bool, err error) {
	var st store.Store = t.st
	if tx != nil {
		st = store.In(tx, t.st)
	}
	_, g, err := t.find(ctx, st, id)
	if errors.Is(err, fsys.NotExist) {
		err = Over
	}
	if err != nil {
		return false, false, err
	}
	read, write = g.At(mount)
	return read, write, nil
}

// Ended returns a function that returns [Over] once done is closed.
func Ended(done <-chan struct{}) func() error {
	return func() error {
		select {
		case <-done:
			return Over
		default:
			return nil
		}
	}
}

// hashOf returns what a secret is stored under; not ok if it cannot be one.
func hashOf(secret string) (hash string, ok bool) {
	if len(secret) != len(Prefix)+base64.RawURLEncoding.EncodedLen(secretBytes) {
		return "", false
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:]), true
}

// Revoke ends the token with this id and the sessions that it opened.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	return t.st.Update(ctx, func(tx store.Store) error {
		hash, g, err := t.find(ctx, tx, id)
		if store.IsDamaged(err) {
			g.ID = id
			store.After(tx, func() { t.live.end(hash) })
			return cmp.Or(erase(ctx, tx, hash, id), t.opts.Note.Record(tx, "token.revoked", g))
		}
		if err != nil {
			return err
		}
		return t.revoke(ctx, tx, hash, g)
	})
}

// RevokeAgent revokes every token of agent, in the transaction of tx.
func (t *Tokens) RevokeAgent(ctx context.Context, tx store.Store, agent string) error {
	tx = store.In(tx, t.st)
	for p, err := range store.All(ctx, store.Forgiving(tx), byAgent+agent+"/") {
		if err != nil {
			return err
		}
		hash, g, ok, err := listed(ctx, tx, p.Key)
		if err != nil {
			return err
		}
		if !ok {
			store.After(tx, func() { t.live.end(hash) })
			continue
		}
		if err := t.revoke(ctx, tx, hash, g); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tokens) revoke(ctx context.Context, tx store.Store, hash string, g Grant) error {
	if err := remove(ctx, tx, hash, g); err != nil {
		return err
	}
	store.After(tx, func() { t.live.end(hash) })
	if err := t.opts.Note.Record(tx, "token.revoked", g); err != nil || g.Agent != AllAgents {
		return err
	}
	for p, err := range store.All(ctx, store.Forgiving(tx), byHash) { // those that were made with it
		if err != nil {
			return err
		}
		var made Grant
		if json.Unmarshal(p.Value, &made) == nil && made.From == g.ID {
			if err := t.revoke(ctx, tx, p.Key[len(byHash):], made); err != nil {
				return err
			}
		}
	}
	return nil
}
