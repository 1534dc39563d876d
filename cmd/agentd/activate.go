package main

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
)

// httpName is the FileDescriptorName of a socket that is for HTTP; one of any
// other name is for 9P.
const httpName = "http"

// A given listener was opened by who started the daemon: see
// sd_listen_fds(3).
type given struct {
	net.Listener
	http bool
}

// activated returns the listeners that the daemon was started with. TCP beyond
// loopback needs TLS, as with --listen.
func activated(s settings) (all []given, err error) {
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f)
		if err != nil {
			return nil, usage(fsys.Wrap(fsys.Invalid, fmt.Sprintf("the socket %s that the daemon was started with is not one that listens for streams", f.Name()), err))
		}
		f.Close()
		if l.Addr().Network() == "tcp" && s.cert == "" && !isLoopback(l.Addr().String()) {
			return nil, usage(beyondLoopback(addr.String("tcp", l.Addr().String())))
		}
		all = append(all, given{l, f.Name() == httpName})
	}
	return all, nil
}
