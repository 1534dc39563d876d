// Package ninep speaks 9P2000 and 9P2000.L: one server engine and one client
// over one codec.
//
// A [Server] is asked for a tree at each attach and serves it; what the tree
// needs to know is in [Grant]. A message is described once, in layout.go, for
// both directions and both dialects, and everything else is in terms of fsys:
// only this package knows qids, fids and tags.
//
// # What a client may append to aname
//
//	?wait=5s              the longest time a read of a Stream or Message blocks before
//	                      it reports the end: for clients that cannot interrupt one
//	?errors=exact         9P2000: never a reason behind the text of an error
//	?errors=full          9P2000: always
//	?errors=auto          9P2000: where 9pfuse still finds the same errno (the default)
//	?stream=plain         9P2000.L: the client is a library that takes an empty read
//	                      for the end of a Stream, whatever it asked for
//	?stream=v9fs          9P2000: the client is Linux's v9fs, which ends a read(2) by it
//
// Several are joined with &. An option that is unknown is refused.
//
// # How a request runs
//
// The reader goroutine of a connection decodes a request, finds its fids and
// registers its tag, all in the order of the wire. A worker then calls the
// service, with a context of its own that Tflush, a clunk of the fid, the end
// of the grant and the end of the connection cancel. What the call has brought
// about is committed to the fids, unless the request was given up meanwhile,
// and the reply is put in the outbox together with the Rflushes that it
// settles. The session's one lock guards the bookkeeping and is never held
// across a call into a service.
package ninep
