package main

// spare is how many bytes of garbage there may be before the collector of
// garbage begins, and half of what there may be when it has ended. Without it
// a daemon with little in memory would collect some ten times a second while
// 50 answers come, and pieces of them would wait for that.
const spare = 32 << 20

// newSpare returns memory that is never touched, so that the system gives none
// for it, but that the collector counts: it begins when there is as much
// garbage as there is memory in use. Keep it alive as long as that is to hold.
func newSpare() []byte { return make([]byte, spare) }
