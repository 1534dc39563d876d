package identity

import (
	"context"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/check"
)

// Check finds out whether the key of agent in st can be read, and, with a ring,
// opened. ring may be nil.
func Check(ctx context.Context, st store.Updater, r *check.Report, ring *KeyRing, agent string) error {
	switch _, err := st.Get(ctx, recordKey); {
	case err != nil && fsys.CodeOf(err) == fsys.NotExist:
		r.Lost("the agent has no key", check.FromBackup)
		return nil
	case err != nil:
		return err
	}
	rec, ok, err := check.Record[record](ctx, st, r, recordKey, "the key")
	if err != nil || !ok {
		return err
	}
	if _, err := parsePubkey("the public key", rec.Pubkey); err != nil || rec.Version != recordVersion {
		r.Lost("the record of the key is damaged, or of another version of this program", check.FromBackup)
		return nil
	}
	if ring == nil {
		return nil
	}
	if _, err := Reseal(ctx, st, ring, agent, nowhere{}, ring, agent); err != nil {
		r.Lost("the private key cannot be used: "+fsys.ReasonOf(err), check.FromBackup)
	}
	return nil
}

// nowhere keeps nothing of what is written to it.
type nowhere struct{ store.Store }

func (nowhere) Put(context.Context, string, []byte) error { return nil }

// CheckRing finds out whether the record of the key ring in st can be read, and
// how its master key is made.
func CheckRing(ctx context.Context, st store.Updater, r *check.Report) error {
	_, err := loadRing(ctx, st)
	if err != nil && fsys.CodeOf(err) == fsys.Internal {
		r.Lost(fsys.ReasonOf(err), check.FromBackup+"; without it no key of any agent can be opened")
		return nil
	}
	return err
}
