package containers

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// Policy says what may be asked of whom. Names are globs, in which * is any
// text; what is blocked is not allowed by anything, and an empty list of what
// is allowed allows all.
type Policy struct {
	// Provider is for requests that name none; empty is the first one.
	Provider       string   `json:"provider"`
	AllowProviders []string `json:"allow_providers"`
	BlockProviders []string `json:"block_providers"`
	// DefaultImage is for requests that name none; empty is the provider's.
	DefaultImage string   `json:"default_image"`
	AllowImages  []string `json:"allow_images"`
	BlockImages  []string `json:"block_images"`
	// Pull lets a provider fetch an image that it does not have, if AllowImages
	// names it: an empty AllowImages allows the images that the provider has,
	// and no other.
	Pull bool `json:"pull"`
	// GitImage is the image whose git clones with a secret; empty is that of
	// the session, unless only a glob allows that.
	GitImage string `json:"git_image"`
	// Network lets a request ask for a network.
	Network bool `json:"network"`
	// Limits hold for what a request does not say, and MaxLimits are the most
	// that it may ask for.
	Limits    Limits `json:"limits"`
	MaxLimits Limits `json:"max_limits"`
	// RequireLimits says when a provider that cannot enforce a limit is not
	// used: all limits must hold (all), those that a request asks for, of a
	// provider that says it isolates (asked), or whatever holds will do (none).
	RequireLimits string `json:"require_limits"`
	// MaxConcurrent sessions run at once, MaxQueued more may wait, and a
	// session runs MaxExecs commands at once.
	MaxConcurrent int `json:"max_concurrent"`
	MaxQueued     int `json:"max_queued"`
	MaxExecs      int `json:"max_execs"`
	// OutputLimit is how much is kept of what a session's commands, or an
	// exec, write.
	OutputLimit int64 `json:"output_bytes"`
	// Idle is when a session that is kept ends because nobody uses it, after an
	// event IdleWarning before; MaxLife ends every session.
	Idle        int64 `json:"idle_s"`
	IdleWarning int64 `json:"idle_warning_s"`
	MaxLife     int64 `json:"max_life_s"`
	// StopGrace is how long commands have after the SIGTERM of a stop.
	StopGrace int64 `json:"stop_grace_s"`
	// What a session costs: once, for every second that it runs, and for every
	// second and GiB of memory that it may use.
	PerSession   budget.Micros `json:"price_per_session_microusd"`
	PerSecond    budget.Micros `json:"price_per_second_microusd"`
	PerGiBSecond budget.Micros `json:"price_per_gib_second_microusd"`
	// DefaultMaxCost is the most that is held for a request that does not say
	// max_cost_microusd.
	DefaultMaxCost budget.Micros `json:"default_max_cost_microusd"`
	// IdempotencyTTL is how long a key stands for its session.
	IdempotencyTTL work.Duration `json:"idempotency_ttl"`
	// Of sessions that have ended, with their sandboxes, those of the last
	// KeepSessions are kept, no more than MaxKept of them, and no more than
	// KeepBytes of output.
	KeepSessions work.Duration `json:"keep_sessions"`
	MaxKept      int64         `json:"max_kept"`
	KeepBytes    int64         `json:"keep_bytes"`
	// MaxWorkspaces is how many workspaces may persist.
	MaxWorkspaces int `json:"max_workspaces"`
	// GitSuffix follows the agent's name as the author of commits, and
	// GitDomain is that of its address.
	GitSuffix string `json:"git_suffix"`
	GitDomain string `json:"git_domain"`
}

// Limits are what a session may use.
type Limits struct {
	Time   int64      `json:"time_s"` // of each command
	Memory int64      `json:"memory_mb"`
	Disk   int64      `json:"disk_mb"`
	CPUs   Thousandth `json:"cpus"`
	PIDs   int64      `json:"pids"`
}

// The values of Policy.RequireLimits.
const (
	requireAll   = "all"
	requireAsked = "asked"
	requireNone  = "none"
)

// defaultPolicy holds until a policy is written, and for the fields that it
// does not have.
func defaultPolicy() Policy {
	return Policy{
		AllowProviders: []string{},
		BlockProviders: []string{},
		AllowImages:    []string{},
		BlockImages:    []string{},
		Pull:           true,
		Limits:         Limits{Time: 300, Memory: 1024, Disk: 512, CPUs: 1000, PIDs: 256},
		MaxLimits:      Limits{Time: 86_400, Memory: 8192, Disk: 16_384, CPUs: 8000, PIDs: 4096},
		RequireLimits:  requireAsked,
		MaxConcurrent:  16,
		MaxQueued:      256,
		MaxExecs:       64,
		OutputLimit:    64 << 20,
		Idle:           900,
		IdleWarning:    60,
		MaxLife:        86_400,
		StopGrace:      5,
		DefaultMaxCost: 1_000_000,
		IdempotencyTTL: work.Duration(work.Day),
		KeepSessions:   work.Duration(7 * work.Day),
		MaxKept:        1000,
		KeepBytes:      4 << 30,
		MaxWorkspaces:  64,
		GitDomain:      "agents.invalid",
	}
}

// parsePolicy reads a policy strictly.
func parsePolicy(doc []byte) (Policy, error) {
	p := defaultPolicy()
	if err := strictly(doc, &p); err != nil {
		return Policy{}, fsys.Wrap(fsys.Invalid, "policy", err)
	}
	return p, p.check()
}

// strictly decodes one JSON object that has no other fields than v.
func strictly(doc []byte, v any) error {
	if err := fsys.Strictly(doc, v); err != nil {
		return fsys.Wrap(fsys.Invalid, "not what is wanted", err)
	}
	return nil
}

// maxPrice keeps sums of prices, times and sizes within 64 bits.
const maxPrice = 1_000_000_000

func (p *Policy) check() error {
	for _, f := range []struct {
		name     string
		n        int64
		min, max int64
	}{
		{"limits.time_s", p.Limits.Time, 1, p.MaxLimits.Time},
		{"limits.memory_mb", p.Limits.Memory, 1, p.MaxLimits.Memory},
		{"limits.disk_mb", p.Limits.Disk, 1, p.MaxLimits.Disk},
		{"limits.cpus (in thousandths)", int64(p.Limits.CPUs), 1, int64(p.MaxLimits.CPUs)},
		{"limits.pids", p.Limits.PIDs, 1, p.MaxLimits.PIDs},
		{"max_limits.time_s", p.MaxLimits.Time, 1, 30 * 86_400},
		{"max_limits.memory_mb", p.MaxLimits.Memory, 1, 1 << 24},
		{"max_limits.disk_mb", p.MaxLimits.Disk, 1, 1 << 26},
		{"max_limits.cpus (in thousandths)", int64(p.MaxLimits.CPUs), 1, 1 << 20},
		{"max_limits.pids", p.MaxLimits.PIDs, 1, 1 << 22},
		{"max_concurrent", int64(p.MaxConcurrent), 1, 10_000},
		{"max_queued", int64(p.MaxQueued), 0, 100_000},
		{"max_execs", int64(p.MaxExecs), 1, 10_000},
		{"output_bytes", p.OutputLimit, 0, 1 << 40},
		{"idle_s", p.Idle, 1, 30 * 86_400},
		{"idle_warning_s", p.IdleWarning, 0, 30 * 86_400},
		{"max_life_s", p.MaxLife, 1, 30 * 86_400},
		{"stop_grace_s", p.StopGrace, 0, 3600},
		{"price_per_session_microusd", int64(p.PerSession), 0, maxPrice},
		{"price_per_second_microusd", int64(p.PerSecond), 0, maxPrice},
		{"price_per_gib_second_microusd", int64(p.PerGiBSecond), 0, maxPrice},
		{"default_max_cost_microusd", int64(p.DefaultMaxCost), 0, int64(budget.Most)},
		{"max_kept", p.MaxKept, 0, 1 << 30},
		{"keep_bytes", p.KeepBytes, 0, 1 << 50},
		{"max_workspaces", int64(p.MaxWorkspaces), 0, 100_000},
	} {
		if f.n < f.min || f.n > f.max {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %s is from %d to %d, not %d", f.name, f.min, f.max, f.n))
		}
	}
	if !slices.Contains([]string{requireAll, requireAsked, requireNone}, p.RequireLimits) {
		return fsys.E(fsys.Invalid, fmt.Sprintf("policy: require_limits is all, asked or none, not %q", p.RequireLimits))
	}
	if strings.ContainsAny(p.GitSuffix+p.GitDomain, "<>\n\x00") {
		return fsys.E(fsys.Invalid, "policy: git_suffix and git_domain are part of a line of git's, and cannot have < or > or a newline")
	}
	for _, glob := range slices.Concat(p.AllowProviders, p.BlockProviders, p.AllowImages, p.BlockImages) {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %q is not a pattern for names", glob))
		}
	}
	return nil
}

// allowed reports whether something that has these names may be used: any of
// them can allow it, and any of them block it.
func allowed(allow, block []string, names ...string) bool {
	match := func(glob string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			ok, err := path.Match(strings.ReplaceAll(glob, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
			return ok && err == nil
		})
	}
	return !slices.ContainsFunc(block, match) && (len(allow) == 0 || slices.ContainsFunc(allow, match))
}

// imageNames are the names by which a policy may know an image: as it was
// written, in short, and each with the tag that is meant if there is none.
func imageNames(image string) []string {
	short := image
	for _, prefix := range []string{"index.docker.io/", "docker.io/", "library/"} {
		short = strings.TrimPrefix(short, prefix)
	}
	names := []string{image, short}
	if base := short[strings.LastIndexByte(short, '/')+1:]; !strings.ContainsAny(base, ":@") {
		names = append(names, image+":latest", short+":latest")
	}
	if tagged, ok := strings.CutSuffix(short, ":latest"); ok {
		names = append(names, tagged)
	}
	return names
}

// pulls reports whether a provider may fetch an image that this policy allows.
func (p *Policy) pulls() bool { return p.Pull && len(p.AllowImages) > 0 }

// notPulled is what is said of an image that is not there and was not pulled.
func (p *Policy) notPulled(runner, image string) error {
	var lacks []string
	if !p.Pull {
		lacks = append(lacks, `"pull" to be true`)
	}
	if len(p.AllowImages) == 0 {
		lacks = append(lacks, fmt.Sprintf(`%q in "allow_images"`, image))
	}
	return fsys.E(fsys.NotExist, fmt.Sprintf("the provider %s has no image %s, and may not pull it: that takes %s, in containers/policy",
		runner, image, strings.Join(lacks, " and ")))
}

// policies is the document at policyKey.
func policies() *work.Document[Policy] {
	return &work.Document[Policy]{Key: policyKey, Default: defaultPolicy, Parse: parsePolicy}
}

func (s *Service) savePolicy(ctx context.Context, doc []byte) error {
	p, err := parsePolicy(doc)
	if err != nil {
		return err
	}
	if p.Provider != "" && s.config.Providers.Get(p.Provider) == nil {
		return fsys.E(fsys.Invalid, "policy: provider: "+s.config.Providers.None(p.Provider))
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := store.PutJSON(ctx, tx, policyKey, p); err != nil {
			return err
		}
		store.After(tx, func() { s.ledger.Crew.Limit(p.MaxConcurrent, p.MaxQueued) })
		return s.config.Note.Record(tx, "containers.policy", p)
	})
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
