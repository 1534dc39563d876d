// Package mcp serves a file tree in the Model Context Protocol, so that a
// coding assistant, or whatever else speaks it, works with the files. Nothing
// has a meaning of its own here: a tool is an operation on a file.
//
//	list     what is in a directory: name, kind, size
//	read     what is there now, from an offset, without waiting
//	wait     a stream from an offset on: what comes, for so many seconds
//	write    a file: all of it, or at its end
//	call     a Message file: writes a request and returns the reply
//	mkdir    makes a directory
//	remove   removes a file or an empty directory
//	rename   renames in the same directory
//
// What is read says where to go on: next_offset. A file that takes something
// away, such as inbox/next, has taken it when wait was told to go to the end
// and came there; then the answer is on its way and nobody can say whether it
// arrived. To be sure, read inbox/head and then remove the message.
//
// The files are resources as well: agent9:///PATH, from ?offset=N. Those of the
// first two levels are listed. Whoever subscribes to a stream is told when it
// has grown; of a stream that begins anew for each open, only the first time.
//
// An operation that fails is a tool's error: its code, the path, the reason.
package mcp
