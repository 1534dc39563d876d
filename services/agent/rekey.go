package agent

import (
	"context"

	"agent9/services/identity"
	"agent9/services/secrets"
	"agent9/store"
)

// Reseal seals the private key and the secrets of the agent called name, whose
// part of a transaction is tx, in another ring.
func Reseal(ctx context.Context, tx store.Store, name string, from, to *identity.KeyRing) error {
	keys := store.Part(tx, identityPart)
	if _, err := identity.Reseal(ctx, keys, from, name, keys, to, name); err != nil {
		return err
	}
	own := store.Part(tx, secretsPart)
	return secrets.Reseal(ctx, own, from.Box(secretsBox), name, own, to.Box(secretsBox), name)
}
