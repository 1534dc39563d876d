package agent

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/bundle"
	"agent9/services/identity"
	"agent9/store"
	"agent9/store/check"
)

// ringPart is, in the keys of a bundle, how its passphrase makes their key.
const ringPart = "ring/"

// Pack returns what a bundle of the agent called name has. v is one moment of
// the agent's part of the store; the contents are good as long as v is. With a
// passphrase, which it clears, the private key and the secrets are among them.
func Pack(ctx context.Context, v store.Store, house *House, name string, passphrase []byte) (bundle.Contents, error) {
	c := bundle.Contents{Name: name, Exported: house.Now()}
	var err error
	if c.Pubkey, err = identity.PubkeyIn(ctx, store.Part(v, identityPart)); err != nil {
		return c, err
	}
	prefixes, err := parts().unsealed(ctx, v)
	if err != nil {
		return c, err
	}
	for _, part := range prefixes {
		c.Parts = append(c.Parts, bundle.Part{Name: strings.TrimSuffix(part, "/"), Records: store.All(ctx, store.Part(v, part), "")})
	}
	if passphrase == nil {
		return c, nil
	}
	sealed := newScratch()
	if err := packKeys(ctx, v, house, name, passphrase, sealed); err != nil {
		return c, err
	}
	c.Keys = sealed.pairs()
	return c, nil
}

// unsealed returns the prefixes of what v has that is not sealed.
func (t table) unsealed(ctx context.Context, v store.Store) (prefixes []string, err error) {
	for after := ""; ; {
		page, err := v.List(ctx, "", after, 1)
		if err != nil || len(page) == 0 {
			return prefixes, err
		}
		part, _, ok := strings.Cut(page[0].Key, "/")
		if !ok {
			return nil, fsys.E(fsys.Internal, "the agent has a record in no part: "+part)
		}
		part += "/"
		if p := t.named(strings.TrimSuffix(part, "/")); p == nil || p.reseal == nil {
			prefixes = append(prefixes, part)
		}
		after = part + strings.Repeat("\xff", store.MaxKey/2) // no key is greater and in this part
	}
}

func packKeys(ctx context.Context, v store.Store, house *House, name string, passphrase []byte, to scratch) error {
	ring, err := identity.RingFromPassphrase(ctx, store.Part(to, ringPart), passphrase)
	if err != nil {
		return err
	}
	return parts().reseal(ctx, keys{v, house.Ring, name}, keys{to, ring, name}, true)
}

// A Wish says what is to become of a bundle.
type Wish struct {
	Name        string
	Clone       bool // another agent with the same settings
	NewIdentity bool // make a key, and leave the one that the bundle may have
	Passphrase  []byte
}

// Check refuses a wish that b cannot fulfil.
func (w Wish) Check(b *bundle.Bundle) error {
	for _, part := range b.Parts() {
		if p := parts().named(part); p == nil || p.reseal != nil {
			return fsys.E(fsys.Invalid, fmt.Sprintf("the bundle has %q where it does not belong: an agent has no such part", part))
		}
	}
	switch {
	case w.Passphrase != nil && !b.Keys:
		return fsys.E(fsys.Invalid, "the bundle has no keys that a passphrase could open: leave it away (agentctl import without --with-keys), and ask for a new identity (--new-identity) or a clone (--mode clone)")
	case w.Clone || w.NewIdentity || w.Passphrase != nil:
		return nil
	case b.Keys:
		return fsys.E(fsys.Invalid, "the private key in the bundle opens with the passphrase that it was exported with; give that (agentctl import --with-keys), or ask for a new identity (--new-identity)")
	}
	return fsys.E(fsys.Invalid, "the bundle has no private key, so that the agent cannot be restored as who it was: ask for a new identity (agentctl import --new-identity) or for a clone (--mode clone), or export it with its keys (agentctl export --with-keys)")
}

// Unpack writes the agent of b, which was checked, into st, which is empty, in many transactions:
// nobody may know of it before that is done. It clears the passphrase, and
// returns the account that is to be above the agent's; empty if there is none.
func Unpack(ctx context.Context, st store.Updater, house *House, b *bundle.Bundle, w Wish) (parent string, err error) {
	if w.Clone {
		err = st.Update(ctx, func(tx store.Store) error { return Create(ctx, tx, st, house, w.Name) })
		if err != nil {
			return "", err
		}
	}
	for _, name := range b.Parts() {
		p := parts().named(name)
		takes := p.setting
		switch {
		case !w.Clone:
			takes = all
		case takes == nil:
			continue
		}
		if err := copyRecords(ctx, store.Sub(st, p.prefix()), b.Records(name), takes, p.arrive); err != nil {
			return "", err
		}
	}
	if err := unpackKeys(ctx, st, house, b, w); err != nil {
		return "", err
	}
	err = st.Update(ctx, func(tx store.Store) error {
		parent, err = budget.Adopt(ctx, store.Part(tx, BudgetPart))
		return err
	})
	if err == nil {
		err = sound(ctx, st, house, w.Name)
	}
	return parent, err
}

// sound makes sure of what arrived as agentd fsck does: what can be mended without
// a loss is, and what breaks a promise is refused.
func sound(ctx context.Context, st store.Updater, house *House, name string) error {
	for range 8 { // what was mended can show more
		r := check.New()
		if _, err := Check(ctx, st, r, house.Ring, name); err != nil {
			return fsys.Wrap(fsys.Invalid, "what is in the bundle cannot be checked", err)
		}
		mended := false
		for _, f := range r.All() {
			if f.Fix == nil && !f.Ends {
				return fsys.E(fsys.Invalid, fmt.Sprintf("the bundle has what no agent can have: %s: %s", f.Where, f.What))
			}
			if f.Fix == nil {
				continue
			}
			if err := f.Fix(ctx); err != nil {
				return fsys.Wrap(fsys.Invalid, "the bundle has what cannot be mended: "+f.Where+": "+f.What, err)
			}
			mended = true
		}
		if !mended {
			return nil
		}
	}
	return fsys.E(fsys.Invalid, "the bundle has what cannot be mended")
}

// copyBatch is about how many bytes of records go in one transaction.
const copyBatch = 1 << 20

func copyRecords(ctx context.Context, to store.Updater, records iter.Seq2[store.Pair, error], takes func(key string) bool, arrive func(store.Pair) ([]store.Pair, error)) error {
	var batch []store.Pair
	size := 0
	flush := func() error {
		err := to.Update(ctx, func(tx store.Store) error {
			for _, p := range batch {
				if err := tx.Put(ctx, p.Key, p.Value); err != nil {
					return err
				}
			}
			return nil
		})
		batch, size = batch[:0], 0
		return err
	}
	for p, err := range records {
		if err != nil {
			return err
		}
		if !takes(p.Key) {
			continue
		}
		pairs := []store.Pair{p}
		if arrive != nil {
			if pairs, err = arrive(p); err != nil {
				return err
			}
		}
		batch, size = append(batch, pairs...), size+len(p.Key)+len(p.Value)
		if size < copyBatch {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

func unpackKeys(ctx context.Context, st store.Updater, house *House, b *bundle.Bundle, w Wish) error {
	if w.NewIdentity && !w.Clone {
		if _, err := identity.Create(ctx, store.Part(st, identityPart), house.Ring, w.Name); err != nil {
			return err
		}
	}
	if w.Passphrase == nil {
		return nil
	}
	sealed := newScratch()
	for p, err := range b.KeyRecords() {
		if err == nil {
			err = sealed.Put(ctx, p.Key, p.Value)
		}
		if err != nil {
			return err
		}
	}
	ring, err := identity.RingFromPassphrase(ctx, store.Part(sealed, ringPart), w.Passphrase)
	if err != nil {
		return fsys.Wrap(fsys.Permission, "the keys in the bundle", err)
	}
	restored := !w.NewIdentity && !w.Clone
	return st.Update(ctx, func(tx store.Store) error {
		err := parts().reseal(ctx, keys{sealed, ring, b.Name}, keys{tx, house.Ring, w.Name}, restored)
		if err != nil || !restored {
			return err
		}
		if pubkey, err := identity.PubkeyIn(ctx, store.Part(tx, identityPart)); err != nil || pubkey != b.Pubkey {
			return cmp.Or(err, fsys.E(fsys.Invalid, "the key in the bundle is not that of the agent in it"))
		}
		return nil
	})
}

// scratch is a small store in memory.
type scratch struct{ *store.Tx }

func newScratch() scratch { return scratch{store.NewTx(nil, nothing{})} }

func (s scratch) pairs() iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		for key, value := range s.Changes() {
			if !yield(store.Pair{Key: key, Value: value}, nil) {
				return
			}
		}
	}
}

// nothing is what lies under a scratch.
type nothing struct{}

func (nothing) Get(context.Context, string) ([]byte, error) { return nil, fsys.NotExist }

func (nothing) Range(context.Context, string, string, func(string, []byte) bool) error { return nil }
