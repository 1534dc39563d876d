package compute_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
)

func TestAHundredReaders(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newDeskOn(t, db, &fake.Provider{})
		var script, want strings.Builder
		script.WriteString("use 1 13000;")
		for i := range 200 {
			fmt.Fprintf(&script, "say %d %s;", i, strings.Repeat("x", 1000))
			fmt.Fprintf(&want, "%d %s ", i, strings.Repeat("x", 1000))
			if i == 100 {
				script.WriteString("wait middle;")
			}
		}
		n := d.ask(say(strings.TrimSuffix(script.String(), ";"), `"max_cost_microusd":1000000`))
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/"+n+"/output", fsys.Read)
				if err != nil {
					t.Error(err)
					return
				}
				var b strings.Builder
				p := make([]byte, 100+i*50)
				for {
					n, err := fsys.ReadAt(d.ctx, h, p, int64(b.Len()))
					b.Write(p[:n])
					if n == 0 {
						if b.String() != want.String() {
							t.Errorf("reader %d got %d bytes, want %d: %v", i, b.Len(), want.Len(), err)
						}
						return
					}
				}
			})
		}
		d.begun(n)
		d.fake.Open("middle")
		wg.Wait()
		d.read("jobs/" + n + "/result")
		// A reader that comes back, and one that comes late.
		h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/"+n+"/output", fsys.Read)
		d.must(err)
		p := make([]byte, 10)
		got, err := fsys.ReadAt(d.ctx, h, p, int64(want.Len()-10))
		if string(p[:got]) != want.String()[want.Len()-10:] {
			t.Errorf("at the end: %q, %v", p[:got], err)
		}
	})
}

// A word is there for a reader that waits before the next one is asked for.
func TestFirstWordAtOnce(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("one;wait 1;two;wait 2;three"))
	for path, steps := range map[string][]string{
		"output": {"one ", "two ", "three "},
	} {
		h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/"+n+"/"+path, fsys.Read)
		d.must(err)
		off := int64(0)
		for i, want := range steps {
			p := make([]byte, 100)
			m, err := fsys.ReadAt(d.ctx, h, p, off)
			if string(p[:m]) != want {
				t.Errorf("step %d: got %q, %v", i, p[:m], err)
			}
			off += int64(m)
			d.fake.Open(fmt.Sprint(i + 1))
		}
	}
	d.read("jobs/" + n + "/result")
}

func TestAWaitForTheResultEnds(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("wait"))
	h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/"+n+"/result", fsys.Read)
	d.must(err)
	ctx, cancel := context.WithTimeout(d.ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := fsys.ReadAt(ctx, h, make([]byte, 1), 0); fsys.CodeOf(err) != fsys.Timeout {
		t.Errorf("got %v", err)
	}
	node, err := fsys.WalkPath(d.ctx, d.svc.Root(), "jobs/"+n+"/result")
	d.must(err)
	if info, err := node.Stat(d.ctx); err != nil || info.Size != 0 {
		t.Errorf("before the end: %+v, %v", info, err)
	}
	d.fake.Open("")
	b, err := fsys.ReadAll(d.ctx, h)
	info, _ := node.Stat(d.ctx)
	if err != nil || int64(len(b)) != info.Size {
		t.Errorf("%d bytes of %d, %v", len(b), info.Size, err)
	}
	if s := d.status(n); s.State != compute.Done {
		t.Errorf("got %+v", s)
	}
}

// Who reads a job that has ended sees it end with the job's directory, also if
// nobody else looked at it meanwhile.
func TestReaderOfWhatIsRemoved(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("some text"))
	d.read("jobs/" + n + "/result")
	h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/1/output", fsys.Read)
	d.must(err)
	runtime.GC()
	d.removeAll("jobs/1")
	if n, err := fsys.ReadAt(d.ctx, h, make([]byte, 10), 0); n > 0 {
		t.Errorf("read %d bytes of what is gone, %v", n, err)
	}
}
