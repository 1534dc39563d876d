package compute

import (
	"context"
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
	work.Listing
}

// The keys of what else is stored; those of records are the table's.
const (
	policyKey = "policy"
	draftPref = "draft/" // drafts, by name: when made

	resPrefix    = "res/"    // the result
	outPrefix    = "out/"    // the log of the output
	chunksPrefix = "chunks/" // the log of the chunks
)

// Arrive returns what becomes of a record that comes from elsewhere.
func Arrive(p store.Pair) ([]store.Pair, error) { return work.Arrive(p, work.RecPrefix) }

func resultKey(n int64) string  { return resPrefix + work.Padded(n) }
func outputView(n int64) string { return outPrefix + work.Padded(n) + "/" }
func chunksView(n int64) string { return chunksPrefix + work.Padded(n) + "/" }

// IsSetting reports whether what is stored at key is what the operator has set,
// and not what was asked of models: a copy of an agent is given it.
func IsSetting(key string) bool { return key == policyKey }

// totals are sums over all jobs that there are, and of what was ever spent.
type totals struct {
	work.Sums
	Jobs  map[State]int64 `json:"jobs"`
	Draft int64           `json:"drafts"`
	Kept  int64           `json:"kept"` // bytes of jobs that have ended
}

// table is how jobs are stored.
var table = work.Table[record, totals]{
	What:     "job",
	Data:     []string{resPrefix, outPrefix, chunksPrefix},
	Standing: (*record).standing,
	New:      func() totals { return totals{Jobs: map[State]int64{}} },
	Sums:     func(t *totals) *work.Sums { return &t.Sums },
	Count:    (*totals).count,
	Besides: func(ctx context.Context, st store.Store, t *totals) error {
		for _, err := range store.All(ctx, st, draftPref) {
			if err != nil {
				return err
			}
			t.Draft++
		}
		return nil
	},
}

func (r *record) standing() work.Standing {
	s := work.Standing{
		Number: r.Number, Listed: r.Entry(r.Name), Key: r.Key, Holds: []string{r.Hold}, Held: r.Held, Spent: r.Paid,
		Awaiting: r.State == Awaiting, Open: !r.State.ended(), Ended: r.Ended, Listing: &r.Listing,
	}
	if !s.Open {
		s.Spent = r.Cost
	}
	return s
}

// count adds r to t n times.
func (t *totals) count(r *record, n int64) {
	t.Jobs[r.State] += n
	if r.State.ended() {
		t.Kept = max(t.Kept+n*r.Size, 0)
	}
}

// Interrupted reports whether the records in st have jobs that the end of the
// program cut off, which the next Open settles, or that wait for an approval.
func Interrupted(ctx context.Context, st store.Store) (bool, error) { return work.AnyOpen(ctx, st) }

// Holds returns what the jobs in st that have not ended hold of the account, by
// the id of the hold.
func Holds(ctx context.Context, st store.Store) (map[string]string, error) {
	return table.Holds(ctx, st, serviceName)
}
