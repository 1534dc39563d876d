package status

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the agent's record and configuration in st,
// and returns the configuration and whether the agent is stopped.
func Check(ctx context.Context, st store.Updater, r *check.Report) (c Config, stopped bool, err error) {
	rec, ok, err := check.Record[record](ctx, st, r, recordKey, "the agent's record")
	if err != nil {
		return c, false, err
	}
	if ok && rec.State == "" {
		r.Mend("the agent's record is gone, and with it when it was made", "makes one that says stopped, so that a person looks first",
			check.PutJSON(st, recordKey, record{Created: fsys.Stamp(time.Now()), State: Stopped}))
	}
	doc, err := st.Get(ctx, configKey)
	switch {
	case err != nil && fsys.CodeOf(err) == fsys.NotExist:
		r.Mend("the agent has no configuration", "gives it an empty one", check.Put(st, configKey, []byte("{}\n")))
		return c, rec.State == Stopped, nil
	case err != nil:
		return c, false, err
	}
	if c, err = ParseConfig(doc); err != nil {
		r.Lost("the agent's configuration cannot be read: "+fsys.ReasonOf(err), check.FromBackup)
	}
	return c, rec.State == Stopped, nil
}
