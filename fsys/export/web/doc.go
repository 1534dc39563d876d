// Package web serves a file tree over HTTP. A URL's path is a file's path, and
// every request is an operation on that file:
//
//	GET     reads. A directory is a list in JSON. A Stream is read to its end,
//	        as cat does; with ?watch=1 or Accept: text/event-stream it comes as
//	        events, and Last-Event-ID or ?offset= goes on where one stopped
//	HEAD    stat; X-Agent9-Kind and X-Agent9-Perm say what kind of file it
//	        is and its permissions, X-Agent9-Size how long a stream is now
//	PUT     writes the whole file, and makes it if it does not exist
//	PATCH   appends, or with ?offset=N writes there
//	POST    writes to a Message file and returns the reply; with an empty body
//	        it takes what a file gives away, such as inbox/next
//	DELETE  removes
//	MKCOL   makes a directory; so does POST ?mkdir
//	POST    with ?perm=640 or ?mtime=TIME: chmod and touch. ?perm= also goes
//	        with PUT and MKCOL
//	MOVE    renames to Destination, in the same directory; so does
//	        POST ?rename=NAME
//
// ?wait=5s bounds how long a read blocks before it reports the end. What has a
// version has an ETag, and If-Match, If-None-Match and Range work. An upgrade
// to a WebSocket opens a conversation about many files at once: see [Frame].
//
// POST /agents/NAME/tick and /agents/NAME/send are short for a write of tick
// to its ctl, and for a write to its inbox/new.
//
// Errors are application/problem+json (RFC 9457): status, title, the code of
// fsys in "code" and the reason in "detail".
//
// # Events
//
// An event is a line of the stream, without its newline. What stands at the
// end of the stream and is not a whole line yet comes as an event of type
// part, and the rest of the line as further ones; a line longer than 64 KiB
// comes in such parts too. Text that server-sent events cannot carry (not
// UTF-8, or with a carriage return) is an event of type base64, its newline
// included. id is the offset behind the event, so that who comes back with it
// misses nothing and gets nothing twice; a stream that begins anew for each
// open has none. The event of type end says that the stream has ended.
//
// # Authorization
//
// Nothing but [Server.Public] and [Server.Page] is answered without what
// [Server.Attach] takes for a proof, and then all that is refused looks alike.
package web
