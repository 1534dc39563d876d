//go:build !race

package conformance

// slowed says that everything takes several times as long as it should.
const slowed = false
