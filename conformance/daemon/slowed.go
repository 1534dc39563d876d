//go:build !race

package daemon

// Slowed says that the race detector makes everything larger and slower.
const Slowed = false
