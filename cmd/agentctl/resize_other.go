//go:build !unix

package main

import "context"

// watch does nothing: this system does not say when a terminal gets another
// size.
func (t *terminal) watch(context.Context, func(rows, cols int)) {}
