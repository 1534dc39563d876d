// Package docker makes sandboxes with a Docker engine, or one that speaks its
// API: on this machine, or far away.
//
// The engine is the one that DOCKER_HOST names (unix:///…, tcp://… with TLS by
// DOCKER_TLS_VERIFY and DOCKER_CERT_PATH), else the one at the engine's own
// socket; ssh:// is not one of its ways, but ssh -L to its socket is. The API
// is negotiated with it; Debian's engine (20.10) is what the tests use. Nothing
// of this machine's file system is mounted, so a far engine is no different
// from a near one. Images are pulled without credentials.
//
// # What a sandbox is
//
// A container whose process 1 is the box, connected by the container's standard
// input and output:
//
//	/              the image, read-only, also where it declares volumes
//	/agent9/a9     the helper, read-only
//	/workspace     a volume of its own, or the one that persists under a name
//	/workspace/skills  a volume, read-only; only if there are skills
//	/tmp           in memory: half of the memory limit, else 1 GiB
//	/run/agent9    in memory; the agent's socket
//
// It has no network (not even the engine's DNS) unless its Spec asks for one,
// no capabilities, no new privileges, the engine's seccomp and AppArmor
// profiles, user and group 65534 (in a user name space of their own if the
// engine has one, --userns-remap), no logs on the engine, no restarts, and the
// limits of the Spec on memory (with swap), processors and processes; the box's
// own threads are not counted among these. With the network it is on the one
// that Config names: other containers there, and what the host serves on it,
// can be reached.
//
// The helper and the places for /workspace are put on an image once: a
// sandbox is made of an image agent9-box:KEY, which is the one asked for and
// one layer more. So making a sandbox is one request to the engine and
// starting it two. Such an image goes when [Provider.List] finds that the one
// below it, or the helper, is no more.
//
// # Disk
//
// One file cannot pass the limit (RLIMIT_FSIZE). All that /workspace has is
// bounded by the engine if its volumes are on a file system with project
// quotas (xfs mounted with pquota); else the box measures it, and ends the
// commands when it is more, so it may be more for a moment. Only the engine's
// bound holds against programs that mean to get around it, by files that are
// open and have no name.
//
// # Names on the engine
//
// Containers, volumes and images are labelled agent9.owner=OWNER; others are
// never looked at, but for images to make sandboxes of. A container is called
// agent9-RANDOM, which is the ID of the sandbox, or agent9-hand-… if it is one
// that is made to copy files into a volume or image, is never started, and is
// removed at once. Hands are told by their names, which have their owner's sum.
package docker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/docker/docker/client"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// Config says which engine to use, and how.
type Config struct {
	// Host is the engine, as DOCKER_HOST has it; empty: what that says.
	Host string
	// Owner is what distinguishes this daemon from others that use the same
	// engine.
	Owner string
	// Helper returns the helper for an architecture, as GOARCH calls it; nil
	// is containers.FindHelper.
	Helper func(arch string) (sandboxes.Helper, error)
	// DefaultImage is for a Spec without one; empty is DefaultImage.
	DefaultImage string
	// Network is the engine's network for a Spec that asks for one; empty is
	// the engine's default, bridge.
	Network string
}

// DefaultImage has a shell and little else.
const DefaultImage = "debian:stable-slim"

// Provider is an engine.
type Provider struct {
	api    *client.Client
	config Config
	made   keyed

	mu        sync.Mutex
	facts     *facts                      // nil: not asked yet
	helpers   map[string]sandboxes.Helper // by architecture
	sandboxes map[string]*sandbox
}

var _ sandboxes.Provider = (*Provider)(nil)

// New returns a Provider. It does not ask the engine yet.
func New(c Config) (*Provider, error) {
	if c.Owner == "" {
		return nil, fsys.E(fsys.Invalid, "Owner is empty: a container engine may be shared, so each daemon needs a name")
	}
	if c.Helper == nil {
		c.Helper = func(arch string) (sandboxes.Helper, error) { return sandboxes.FindHelper("linux", arch) }
	}
	if c.DefaultImage == "" {
		c.DefaultImage = DefaultImage
	}
	if c.Network == "" {
		c.Network = "bridge"
	}
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if c.Host != "" {
		opts = append(opts, client.WithHost(c.Host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the container engine's address or TLS files", err)
	}
	if strings.HasPrefix(api.DaemonHost(), "ssh://") {
		return nil, fsys.E(fsys.Invalid, "a container engine cannot be reached by ssh://; forward its socket (ssh -L) and give that address")
	}
	return &Provider{
		api:       api,
		config:    c,
		helpers:   make(map[string]sandboxes.Helper),
		sandboxes: make(map[string]*sandbox),
	}, nil
}

// Close lets go of the idle connections to the engine. Sandboxes are not
// stopped.
func (p *Provider) Close() error { return p.api.Close() }

// Labels of what is on the engine.
const (
	labelOwner     = "agent9.owner"
	labelName      = "agent9.name"
	labelWorkspace = "agent9.workspace"
	labelSkills    = "agent9.skills"
	labelBase      = "agent9.base"
	labelHelper    = "agent9.helper"
)

// sum returns a name for parts, of 24 letters.
func sum(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

func random() string { return strings.ToLower(rand.Text())[:20] }
