package main

import (
	"context"
	"fmt"
	"testing"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/mem"
)

// A number stays an agent's, is nobody else's, and is given anew only when all
// were, its agent is no more and nothing is left of it.
func TestUsersAreStable(t *testing.T) {
	db := mem.New()
	gone, left := map[string]bool{}, map[int]bool{}
	u := &uids{
		db: db, size: 3, has: []func(int) bool{func(n int) bool { return left[n] }},
		known: func(_ context.Context, _ store.Store, agent string) (bool, error) { return !gone[agent], nil },
	}
	seen := map[int]string{}
	of := map[string]int{}
	for range 2 {
		for i := range 3 {
			agent := fmt.Sprint(i)
			n, err := u.User(t.Context(), agent)
			if err != nil || seen[n] != "" && seen[n] != agent || of[agent] != 0 && of[agent] != n || n < firstUID || n > 0x7fffffff {
				t.Fatalf("%s is %d, %v; %v", agent, n, err, seen)
			}
			seen[n], of[agent] = agent, n
		}
		again := *u // a daemon that starts
		u = &again
	}
	if n, err := u.User(t.Context(), "new"); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("with none left: %d, %v", n, err)
	}
	gone["1"], left[of["1"]] = true, true
	if n, err := u.User(t.Context(), "new"); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("with something left of 1: %d, %v", n, err)
	}
	left[of["1"]] = false
	if n, err := u.User(t.Context(), "new"); n != of["1"] || err != nil {
		t.Errorf("when nothing is left of 1: %d, %v", n, err)
	}
	if n, err := u.User(t.Context(), "1"); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("1 is %d again, %v", n, err)
	}
}
