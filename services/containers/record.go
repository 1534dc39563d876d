package containers

import (
	"context"
	"time"

	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// State is where a session is.
type State string

const (
	Awaiting     State = "awaiting-approval"
	Queued       State = "queued"
	Provisioning State = "provisioning"
	Cloning      State = "cloning"
	Running      State = "running"
	Done         State = "done"    // every command ended with 0
	Failed       State = "failed"  // one did not, or it could not be run
	Expired      State = "expired" // out of time or money, or nobody used it
	Stopped      State = "stopped" // somebody asked for it
)

var states = []State{Awaiting, Queued, Provisioning, Cloning, Running, Done, Failed, Expired, Stopped}

func (s State) ended() bool {
	return s == Done || s == Failed || s == Expired || s == Stopped
}

// record is what the store has of a session, apart from its request and what
// its commands wrote.
type record struct {
	Number    int64         `json:"number"`
	Key       string        `json:"key,omitempty"`
	Token     string        `json:"token,omitempty"` // the id of that which it came with
	State     State         `json:"state"`
	Provider  string        `json:"provider"`
	Image     string        `json:"image,omitempty"`
	Limits    Limits        `json:"limits"`
	Network   bool          `json:"network,omitempty"`
	Keep      bool          `json:"keep,omitempty"`
	Workspace string        `json:"workspace,omitempty"`
	Commands  int           `json:"commands"` // asked for
	Results   []outcome     `json:"results,omitempty"`
	Created   time.Time     `json:"created"`
	Started   time.Time     `json:"started,omitzero"` // the work began
	Up        time.Time     `json:"up,omitzero"`      // the sandbox runs: it costs from now on
	Mark      time.Time     `json:"mark,omitzero"`    // Up, and how long it has run since, at least
	Ended     time.Time     `json:"ended,omitzero"`
	Failure   *work.Failure `json:"failure,omitempty"`
	Holds     []string      `json:"holds"`
	Held      budget.Micros `json:"held"`
	Price     price         `json:"price"`
	Cost      budget.Micros `json:"cost"`
	Sandbox   string        `json:"sandbox,omitempty"`
	Bare      bool          `json:"bare,omitempty"` // files/ is the workspace, and nothing else
	Usage     usage         `json:"usage"`
	Execs     int64         `json:"execs,omitempty"` // made
	Lost      int64         `json:"lost,omitempty"`
	Size      int64         `json:"size"` // of all that is kept of it
	work.Listing
}

// usage is what a sandbox has used.
type usage struct {
	CPU      int64 `json:"cpu_ms"`
	Memory   int64 `json:"memory_peak_bytes"`
	Sent     int64 `json:"network_sent_bytes"`
	Received int64 `json:"network_received_bytes"`
	OOMKills int64 `json:"oom_kills"`
	Wall     int64 `json:"wall_ms"`
}

func usageOf(u sandboxes.Usage) usage {
	return usage{u.CPU.Milliseconds(), u.Memory, u.Sent, u.Received, u.OOMKills, u.Wall.Milliseconds()}
}

// outcome is how a command ended.
type outcome struct {
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"`
	Signal   string        `json:"signal,omitempty"`
	Reason   string        `json:"reason,omitempty"` // timeout, oom, disk, killed
	Wall     int64         `json:"wall_ms"`
	CPU      int64         `json:"cpu_ms"`
	MaxRSS   int64         `json:"max_rss_bytes"`
	Stdout   int64         `json:"stdout_bytes"`
	Stderr   int64         `json:"stderr_bytes"`
	Lost     int64         `json:"lost_bytes,omitempty"`
	Error    *work.Failure `json:"error,omitempty"`
}

// The keys of what else is stored; those of records are the table's.
const (
	policyKey  = "policy"
	workPrefix = "work/"  // workspaces that persist, by provider and name
	trashPref  = "trash/" // sandboxes to remove, by provider and id: nothing

	outPrefix  = "out/"  // the output of sessions, and of execs in the part of one
	execPrefix = "exec/" // the part of a session's execs, with their records
)

// overhead is what a session or an exec counts besides its request and output.
const overhead = 1 << 10

// IsSetting reports whether what is stored at key is what the operator has set,
// and not what was run: a copy of an agent is given it.
func IsSetting(key string) bool { return key == policyKey }

// outputView is where the output of a session is, and execsPart where its
// execs are.
func outputView(n int64) string { return outPrefix + work.Padded(n) + "/" }
func execsPart(n int64) string  { return execPrefix + work.Padded(n) + "/" }

func execKey(n, m int64) string  { return execsPart(n) + work.RecPrefix + work.Padded(m) }
func execView(n, m int64) string { return execsPart(n) + outPrefix + work.Padded(m) + "/" }

// totals are sums over all sessions that there are, and of what was ever spent.
type totals struct {
	work.Sums
	Sessions map[State]int64 `json:"sessions"`
	Kept     int64           `json:"kept"`  // bytes of sessions that have ended
	Ended    int64           `json:"ended"` // sessions that have
	Works    int             `json:"workspaces"`
}

// table is how sessions are stored.
var table = work.Table[record, totals]{
	What:     "session",
	Data:     []string{outPrefix, execPrefix},
	Standing: (*record).standing,
	New:      func() totals { return totals{Sessions: map[State]int64{}} },
	Sums:     func(t *totals) *work.Sums { return &t.Sums },
	Count:    (*totals).count,
	Besides: func(ctx context.Context, st store.Store, t *totals) error {
		for _, err := range store.All(ctx, st, workPrefix) {
			if err != nil {
				return err
			}
			t.Works++
		}
		return nil
	},
}

func (r *record) standing() work.Standing {
	s := work.Standing{
		Number: r.Number, Listed: r.Entry(""), Key: r.Key, Holds: r.Holds, Held: r.Held,
		Awaiting: r.State == Awaiting, Open: !r.State.ended(), Ended: r.Ended, Listing: &r.Listing,
	}
	if !s.Open {
		s.Spent = r.Cost
	}
	return s
}

// count adds r to t n times.
func (t *totals) count(r *record, n int64) {
	t.Sessions[r.State] += n
	if r.State.ended() {
		t.Kept, t.Ended = max(t.Kept+n*r.Size, 0), max(t.Ended+n, 0)
	}
}

// Holds returns what the sessions in st that have not ended hold of the
// account, by the id of the hold.
func Holds(ctx context.Context, st store.Store) (map[string]string, error) {
	return table.Holds(ctx, st, "sandbox")
}

// modTime is when something happened to the session last.
func (r *record) modTime() time.Time {
	for _, t := range []time.Time{r.Ended, r.Up, r.Started} {
		if !t.IsZero() {
			return t
		}
	}
	return r.Created
}

// exitCode is that of the last command, and of the first that failed if one
// did.
func (r *record) exitCode() *int {
	var code *int
	for _, o := range r.Results {
		if code = &o.ExitCode; *code != 0 {
			break
		}
	}
	return code
}
