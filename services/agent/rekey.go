package agent

import (
	"context"

	"agent9/services/identity"
	"agent9/services/secrets"
	"agent9/store"
)

// secretsBox is the purpose for which secrets are sealed.
const secretsBox = "secrets"

// keys are records of the agent called name that are sealed in ring.
type keys struct {
	st   store.Store
	ring *identity.KeyRing
	name string
}

func (k keys) part(prefix string) keys {
	return keys{store.Part(k.st, prefix), k.ring, k.name}
}

// Reseal seals the private key and the secrets of the agent called name, whose
// part of a transaction is tx, in another ring.
func Reseal(ctx context.Context, tx store.Store, name string, from, to *identity.KeyRing) error {
	return parts().reseal(ctx, keys{tx, from, name}, keys{tx, to, name}, true)
}

// reseal copies all that is sealed, or what is not who the agent is.
func (t table) reseal(ctx context.Context, from, to keys, self bool) error {
	for _, p := range t {
		if p.reseal == nil || !self && p.prefix() == identityPart {
			continue
		}
		if err := p.reseal(ctx, from.part(p.prefix()), to.part(p.prefix())); err != nil {
			return err
		}
	}
	return nil
}

func resealIdentity(ctx context.Context, from, to keys) error {
	_, err := identity.Reseal(ctx, from.st, from.ring, from.name, to.st, to.ring, to.name)
	return err
}

func resealSecrets(ctx context.Context, from, to keys) error {
	return secrets.Reseal(ctx, from.st, from.ring.Box(secretsBox), from.name, to.st, to.ring.Box(secretsBox), to.name)
}
