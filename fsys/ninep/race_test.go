//go:build race

package ninep

const raceEnabled = true // sync.Pool then drops things at random
