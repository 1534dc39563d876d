//go:build unix && !linux && !darwin

package box

const rssUnit = 1 << 10 // of getrusage(2)
