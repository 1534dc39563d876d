package secrets

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"agent9/fsys"
)

// A Use is a kind of service that can be given a secret.
type Use string

const (
	Git   Use = "git"   // a clone, as the password for the repository's server
	Tools Use = "tools" // a server of tools, in its environment or in headers
	Net   Use = "net"   // the agent's program, if that is a web service
	Env   Use = "env"   // the environment of commands in a sandbox
)

var uses = []Use{Git, Tools, Net, Env}

// A Binding is what the configuration says of a secret: who may use it, and for
// which hosts. What is sent to a server goes to no other host.
type Binding struct {
	// Hosts are names, as globs, in which * is any text: a port may follow,
	// and otherwise it is the usual one of the protocol.
	Hosts []string `json:"hosts,omitempty"`
	Uses  []Use    `json:"uses"`
}

// ParseBinding reads a Binding strictly.
func ParseBinding(doc []byte) (b Binding, err error) {
	if err := fsys.Strictly(doc, &b); err != nil {
		return b, fsys.E(fsys.Invalid, err.Error())
	}
	for _, u := range b.Uses {
		if !slices.Contains(uses, u) {
			return b, fsys.E(fsys.Invalid, fmt.Sprintf("a secret has no use %.40q; there are: git, tools, net, env", string(u)))
		}
	}
	for _, h := range b.Hosts {
		if !isHostGlob(h) {
			return b, fsys.E(fsys.Invalid, fmt.Sprintf("hosts: %.80q is not the name of a host, such as github.com, *.example.com or localhost:8080", h))
		}
	}
	return b, nil
}

func isHostGlob(glob string) bool {
	host, port := splitHost(glob)
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_*", r))
	}
	ip := strings.HasPrefix(glob, "[") && net.ParseIP(host) != nil
	return host != "" && len(glob) <= 255 && (ip || !strings.ContainsFunc(host, bad)) &&
		(port == "*" || strings.Trim(port, "0123456789") == "") && !strings.HasSuffix(glob, ":")
}

// splitHost takes the port off; there may be none.
func splitHost(s string) (host, port string) {
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		s, port = s[:i], s[i+1:]
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), port
}

// CheckBindings refuses a configuration that is none.
func CheckBindings(all map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := checkName(name)
		if err == nil {
			_, err = ParseBinding(all[name])
		}
		if err != nil {
			return fsys.Wrap(fsys.Invalid, "secrets: "+name, err)
		}
	}
	return nil
}

// allows refuses to give the secret called name to use, to be sent to the
// server of target, or, if that is empty, to no server that is known here.
func (b Binding) allows(name string, use Use, target string) error {
	host, err := hostOf(target)
	if err != nil {
		return fsys.E(fsys.Invalid, fmt.Sprintf("the secret %s is for no server at %.80q", name, target))
	}
	if !slices.Contains(b.Uses, use) {
		example := map[string]Binding{name: {Uses: append(slices.Clone(b.Uses), use), Hosts: b.Hosts}}
		if host.name != "" && !b.has(host) {
			example[name] = Binding{Uses: example[name].Uses, Hosts: append(slices.Clone(b.Hosts), host.String())}
		}
		text, _ := json.Marshal(example)
		return fsys.E(fsys.Permission, fmt.Sprintf(`the secret %s is not bound to %s; the operator writes "secrets": %s into the agent's config`, name, use, text))
	}
	if host.name != "" && !b.has(host) {
		return fsys.E(fsys.Permission, fmt.Sprintf("the secret %s is not bound to the host %s; the operator adds that to secrets.%s.hosts in the agent's config", name, host, name))
	}
	return nil
}

func (b Binding) has(h host) bool {
	return slices.ContainsFunc(b.Hosts, func(glob string) bool {
		name, port := splitHost(glob)
		ok, err := path.Match(name, h.name)
		return err == nil && ok && (port == h.port || port == "*" || port == "" && h.usual)
	})
}

// A host is the server of a URL. The zero one is none.
type host struct {
	name, port string
	usual      bool // the port is that of the protocol
}

func (h host) String() string {
	switch {
	case !h.usual:
		return net.JoinHostPort(h.name, h.port)
	case strings.Contains(h.name, ":"):
		return "[" + h.name + "]"
	}
	return h.name
}

func hostOf(target string) (host, error) {
	if target == "" {
		return host{}, nil
	}
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" || strings.ContainsAny(u.Host, `\%`) {
		return host{}, fsys.Invalid
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	h := host{name: strings.ToLower(u.Hostname()), port: u.Port()}
	if h.port == "" {
		h.port = usual
	}
	h.usual = h.port == usual
	return h, nil
}

// HostOf returns the host of a URL as Binding.Hosts has it.
func HostOf(target string) (string, error) {
	h, err := hostOf(target)
	return h.String(), err
}
