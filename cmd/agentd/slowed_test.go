//go:build !race

package main

// slowed says that the race detector makes everything larger and slower.
const slowed = false
