// Package ninecheck asks a 9P server, whoever made it, whether it keeps to the
// protocol, and shows the frames of what it finds.
//
// It has a codec of its own, whose messages are written in layout.go as the
// manual writes them, so that it cannot share a mistake with the server of this
// module. Every check has connections of its own and says what it goes by: a page
// of section 5 of Plan 9's manual, or diod's protocol.md for 9P2000.L. Checks
// look; only those that need [Options].Write change anything, and only what they
// made themselves. Those that need [Options].Hostile send what no client may
// send, and ask for no more than an error or the end of that connection.
//
// The rules of every reply are checked at every reply: it is as long as its
// fields, not longer than msize, it has the tag of a request that waits and the
// type that belongs to it, and an error says something.
package ninecheck
