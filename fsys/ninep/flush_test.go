package ninep

import (
	"context"
	"slices"
	"testing"
	"time"

	"agent9/fsys"
)

func TestFlushOfABlockedRead(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		sp := newSpy(fsys.Stream)
		_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
		w := connect(t, addr, d, "")
		w.open(1, fsys.Read, "s")
		var took []time.Duration
		for range 50 {
			tag := w.send(message{Type: tread, Fid: 1, Count: 100})
			await(t, sp.began, "the read to begin")
			start := time.Now()
			w.must(message{Type: tflush, OldTag: tag}) // and no reply with tag before it
			took = append(took, time.Since(start))
			if err := await(t, sp.ended, "the read to end"); err == nil {
				t.Fatal("the read of the service was not cancelled")
			}
		}
		slices.Sort(took)
		t.Logf("Rflush after %v (median), %v (worst of 50)", took[25], took[49])
		if took[25] > 10*time.Millisecond {
			t.Errorf("Rflush takes %v", took[25])
		}
		sp.reply <- "data"
		if got := w.read(1, 0, 100); got != "data" {
			t.Errorf("a read after flushes: %q", got)
		}
	})
}

// A service that does not mind its context must not hold up Rflush, and its
// late answer must not reach the client, who may have used the tag again.
func TestFlushOfADeafRead(t *testing.T) {
	sp := newSpy(fsys.Message)
	sp.deaf = true
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	var took []time.Duration
	for range 9 {
		tag := w.send(message{Type: tread, Fid: 1, Count: 100})
		await(t, sp.began, "the read to begin")
		start := time.Now()
		w.must(message{Type: tflush, OldTag: tag})
		took = append(took, time.Since(start))
		again := w.send(message{Type: tgetattr, Tag: tag, Fid: 0})
		sp.reply <- "too late"
		await(t, sp.ended, "the read to end")
		if m := w.recv(); m.Tag != again || m.Type != rgetattr {
			t.Fatalf("got %v with tag %d", m.Type, m.Tag)
		}
	}
	slices.Sort(took)
	t.Logf("Rflush after %v (median), %v (worst)", took[4], took[8])
	if took[4] > 10*time.Millisecond {
		t.Errorf("Rflush takes %v", took[4])
	}
}

// What a flushed request did after all, the client is told, before Rflush.
func TestFlushAfterTheFact(t *testing.T) {
	wrote := make(chan struct{})
	sp := newSpy(fsys.Message)
	sp.write = func(ctx context.Context, _ []byte) error {
		close(wrote)
		<-ctx.Done()
		return nil // it has taken effect
	}
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, plan9, "")
	w.open(1, fsys.Write, "s")
	tag := w.send(message{Type: twrite, Fid: 1, Data: []byte("x")})
	await(t, wrote, "the write")
	flush := w.send(message{Type: tflush, OldTag: tag})
	if m := w.recv(); m.Type != rwrite || m.Tag != tag {
		t.Errorf("first %v with tag %d, want Rwrite", m.Type, m.Tag)
	}
	if m := w.recv(); m.Type != rflush || m.Tag != flush {
		t.Errorf("then %v with tag %d, want Rflush", m.Type, m.Tag)
	}
}

func TestFlushOfNothing(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable())
	w := connect(t, addr, plan9, "")
	w.must(message{Type: tflush, OldTag: 4711})          // never used
	w.must(message{Type: tflush, OldTag: w.tag})         // answered before
	w.must(message{Type: tflush, Tag: 900, OldTag: 900}) // itself
	w.must(message{Type: tflush, Tag: 901, OldTag: noTag})
}

// Several flushes of one request, and a flush of a flush, are answered in the
// order in which they came.
func TestFlushesInOrder(t *testing.T) {
	sp := newSpy(fsys.Stream)
	sp.deaf = true
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	w.send(message{Type: tread, Tag: 100, Fid: 1, Count: 1})
	await(t, sp.began, "the read to begin")
	var batch []byte // in one segment, so that none is answered before the next comes
	for _, m := range []message{
		{Type: tflush, Tag: 101, OldTag: 100},
		{Type: tflush, Tag: 102, OldTag: 100},
		{Type: tflush, Tag: 103, OldTag: 101},
		{Type: tflush, Tag: 104, OldTag: 103},
	} {
		batch = append(batch, encode(t, linux, &m)...)
	}
	w.write(batch)
	var order []uint16
	for range 4 {
		m := w.recv()
		if m.Type != rflush {
			t.Fatalf("got %v", m.Type)
		}
		order = append(order, m.Tag)
	}
	if want := []uint16{101, 103, 104, 102}; !slices.Equal(order, want) {
		t.Errorf("answered %v, want %v", order, want)
	}
	sp.reply <- "late"
	w.clunk(1) // the next reply is Rclunk: nothing else came
}

// A walk, an open or a create that was flushed has not happened.
func TestFlushUndoes(t *testing.T) {
	gate := &gated{Node: fsys.Const("x"), began: make(chan struct{}), go_: make(chan struct{}), closed: make(chan struct{}, 1)}
	_, addr := serveTree(t, gatedDir{gate})
	w := connect(t, addr, linux, "")
	flushIt := func(m message) {
		t.Helper()
		tag := w.send(m)
		await(t, gate.began, "the request to begin")
		w.must(message{Type: tflush, OldTag: tag})
		gate.go_ <- struct{}{}
	}
	flushIt(message{Type: twalk, Fid: 0, NewFid: 1, Names: []string{"slow"}})
	w.eventually(message{Type: twalk, Fid: 0, NewFid: 1}) // 1 is free again
	w.clunk(1)
	go func() { <-gate.began; gate.go_ <- struct{}{} }()
	w.walk(0, 1, "slow")
	flushIt(message{Type: tlopen, Fid: 1})
	await(t, gate.closed, "what was opened to be closed")
	w.fails(message{Type: tread, Fid: 1, Count: 1}, fsys.BadHandle)
}

// eventually repeats m until it succeeds: for what follows from the end of a
// request that is not answered.
func (w *wire) eventually(m message) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := w.rpc(m)
		if got.error() == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%v: still %s", m.Type, got.failure())
		}
	}
}

// gated is a file that is walked to and opened only when the test says so,
// whatever the context.
type gated struct {
	fsys.Node
	began, go_ chan struct{}
	closed     chan struct{}
}

func (g *gated) wait() {
	g.began <- struct{}{}
	<-g.go_
}

func (g *gated) Open(ctx context.Context, f fsys.Flag) (fsys.Handle, error) {
	g.wait()
	return closer{g.closed}, nil
}

type closer struct{ closed chan struct{} }

func (c closer) Close() error {
	c.closed <- struct{}{}
	return nil
}

type gatedDir struct{ *gated }

func (d gatedDir) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555}, nil
}

func (d gatedDir) List(context.Context) ([]fsys.Entry, error) { return nil, nil }

func (d gatedDir) Walk(context.Context, string) (fsys.Node, error) {
	d.wait()
	return d.gated, nil
}
