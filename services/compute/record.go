package compute

import (
	"time"

	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/services/internal/work"
	"agent9/store"
)

// State is where a job is.
type State string

const (
	Awaiting  State = "awaiting-approval"
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

func (s State) ended() bool { return s != Awaiting && s != Queued && s != Running }

// record is what the store has of a job, apart from what it read and wrote.
type record struct {
	Number   int64         `json:"number"`
	Name     string        `json:"name,omitempty"` // of a job that was a draft
	Key      string        `json:"key,omitempty"`
	Token    string        `json:"token,omitempty"` // the id of that which it came with
	State    State         `json:"state"`
	Kind     models.Kind   `json:"kind"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Timeout  int64         `json:"timeout_ms"`
	Created  time.Time     `json:"created"`
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended"`
	Failure  *work.Failure `json:"failure,omitempty"`
	Hold     string        `json:"hold"`
	Held     budget.Micros `json:"held"`
	Free     bool          `json:"free"`
	Price    *models.Price `json:"price,omitempty"`
	// Most is what the attempt that runs can cost, and Bound the tokens that
	// its answer may have, if the request does not say.
	Most    *budget.Micros `json:"most,omitempty"`
	Bound   int64          `json:"bound,omitempty"`
	Usage   models.Usage   `json:"usage"`
	Cost    budget.Micros  `json:"cost"`
	Counted int64          `json:"counted,omitempty"` // tokens, in the pace, at submission
	// Attempts are there if there was more than one; the last one comes with
	// the end of the job. Usage is the last one's, and Paid what those before
	// it cost, which is settled.
	Attempts []attempt     `json:"attempts,omitempty"`
	Paid     budget.Micros `json:"paid,omitempty"`
	Begun    time.Time     `json:"begun,omitzero"`  // the attempt that runs, unless it is the first
	Chain    []link        `json:"chain,omitempty"` // of a job that waits
	Result   int64         `json:"result"`          // size of the response, if there is one
	Size     int64         `json:"size"`            // of all that is kept of it, when it has ended
	Removing bool          `json:"removing,omitempty"`
	Hidden   []string      `json:"hidden,omitempty"` // files that were removed
}

// The keys of the records. Numbers are padded, so that they sort.
const (
	nextKey    = "next"
	totalsKey  = "totals"
	policyKey  = "policy"
	openPrefix = "open/"  // jobs that have not ended: nothing
	listPrefix = "list/"  // jobs: the name
	draftPref  = "draft/" // drafts, by name: when made

	recPrefix    = "rec/"    // jobs: the record
	reqPrefix    = "req/"    // the request
	resPrefix    = "res/"    // the result
	outPrefix    = "out/"    // the log of the output
	chunksPrefix = "chunks/" // the log of the chunks
)

// Arrive returns what becomes of a record that comes from elsewhere.
func Arrive(p store.Pair) ([]store.Pair, error) { return work.Arrive(p, recPrefix) }

func recordKey(n int64) string  { return recPrefix + work.Padded(n) }
func requestKey(n int64) string { return reqPrefix + work.Padded(n) }
func resultKey(n int64) string  { return resPrefix + work.Padded(n) }
func openKey(n int64) string    { return openPrefix + work.Padded(n) }
func listKey(n int64) string    { return listPrefix + work.Padded(n) }
func outputView(n int64) string { return outPrefix + work.Padded(n) + "/" }
func chunksView(n int64) string { return chunksPrefix + work.Padded(n) + "/" }

// IsSetting reports whether what is stored at key is what the operator has set,
// and not what was asked of models: a copy of an agent is given it.
func IsSetting(key string) bool { return key == policyKey }

// totals are sums over all jobs that there are, and of what was ever spent.
type totals struct {
	Held  budget.Micros   `json:"held"`
	Spent budget.Micros   `json:"spent"`
	Jobs  map[State]int64 `json:"jobs"`
	Draft int64           `json:"drafts"`
	Kept  int64           `json:"kept"` // bytes of jobs that have ended
}
