package main

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"strconv"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/store"
)

// Users of the machine are taken from a range that nobody else uses (see
// UIDS-GIDS of systemd), and in it from a block that a daemon chooses at random
// the first time: so two daemons of one machine do not meet.
const (
	firstUID  = 0x70000000 // up to 0x7fffffff
	blocks    = 1 << 12
	blockSize = 1 << 16
)

// uids are the users of agents' sandboxes, in the database: the block, and of
// each number in it whose it is. A number is given anew only when all have been
// given, its agent is no more, and no provider has anything of it.
type uids struct {
	db   store.Updater
	size int
	has  []func(uid int) bool // whether a provider has anything of it
	// known reports whether there is such an agent.
	known func(ctx context.Context, st store.Store, agent string) (bool, error)
}

const (
	uidBlock = "containers/uids/block"
	uidNext  = "containers/uids/next" // the first that was never given
	uidOf    = "containers/uids/of/"  // agent → number
	uidWhose = "containers/uids/is/"  // number → agent
)

var _ sandboxes.Users = (*uids)(nil)

// User returns the number of an agent, and gives it one if it has none.
func (u *uids) User(ctx context.Context, agent string) (int, error) {
	if n, err := uidAt(ctx, u.db, uidOf+agent); err == nil || !errors.Is(err, fsys.NotExist) {
		return n, fsys.Wrap(fsys.CodeOf(err), "the user of the agent's sandboxes", err)
	}
	var n int
	err := u.db.Update(ctx, func(tx store.Store) (err error) {
		if n, err = uidAt(ctx, tx, uidOf+agent); err == nil || !errors.Is(err, fsys.NotExist) {
			return err
		}
		if n, err = u.free(ctx, tx); err != nil {
			return err
		}
		if err := tx.Put(ctx, uidOf+agent, []byte(strconv.Itoa(n))); err != nil {
			return err
		}
		return tx.Put(ctx, uidWhose+strconv.Itoa(n), []byte(agent))
	})
	return n, err
}

// free returns a number that is nobody's.
func (u *uids) free(ctx context.Context, tx store.Store) (int, error) {
	block, err := uidAt(ctx, tx, uidBlock)
	if errors.Is(err, fsys.NotExist) {
		var random *big.Int
		if random, err = rand.Int(rand.Reader, big.NewInt(blocks)); err == nil {
			block = firstUID + int(random.Int64())*blockSize
			err = tx.Put(ctx, uidBlock, []byte(strconv.Itoa(block)))
		}
	}
	if err != nil {
		return 0, err
	}
	next, err := uidAt(ctx, tx, uidNext)
	if errors.Is(err, fsys.NotExist) {
		next, err = block, nil
	}
	if err != nil {
		return 0, err
	}
	if next < block+u.size {
		return next, tx.Put(ctx, uidNext, []byte(strconv.Itoa(next+1)))
	}
	for p, err := range store.All(ctx, tx, uidWhose) {
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(p.Key[len(uidWhose):])
		if err != nil {
			return 0, err
		}
		agent := string(p.Value)
		known, err := u.known(ctx, tx, agent)
		if err != nil {
			return 0, err
		}
		if !known && !u.left(n) {
			return n, tx.Delete(ctx, uidOf+agent)
		}
	}
	return 0, fsys.E(fsys.Exhausted, "there is no user left for the sandboxes of another agent: "+strconv.Itoa(u.size)+" agents have one, or have left something that cannot be removed")
}

func (u *uids) left(n int) bool {
	for _, has := range u.has {
		if has(n) {
			return true
		}
	}
	return false
}

func uidAt(ctx context.Context, st store.Store, key string) (int, error) {
	text, err := st.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}
