//go:build !race

package ninep

const raceEnabled = false
