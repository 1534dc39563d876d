// Package ninep speaks 9P2000 and 9P2000.L: one server engine and one client
// over one codec.
//
// A message is described once, in layout.go, for both directions and both
// dialects. fsys types are used throughout; only this package knows qids, fids
// and tags.
package ninep
