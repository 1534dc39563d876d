package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRatiosAreOfTheSameRound(t *testing.T) {
	// A machine that is twice as slow in the second round slows both down.
	require.Equal(t, 0.5, against([]float64{1, 2, 1}, []float64{2, 4, 2}))
	require.Equal(t, 0.0, against([]float64{1, 2}, []float64{0, 4}), "not known")
	require.Equal(t, 5.0, median([]float64{9, 5, 1}))
	require.Equal(t, 99.0, quantile(ascending(100), 0.99))
}

func ascending(n int) (all []float64) {
	for i := range n {
		all = append(all, float64(i))
	}
	return all
}

func TestByTurns(t *testing.T) {
	var out, notes bytes.Buffer
	b := &bench{out: &out, notes: &notes, rounds: 3, turn: time.Microsecond}
	done := map[string]int{}
	one := func(name string) subject {
		return subject{name: name, do: func(_ context.Context, n int) error { done[name] += n; return nil }}
	}
	require.NoError(t, b.byTurns(t.Context(), "figure", []subject{one("agentd"), one("other")}, aim{"other", 100}, aim{"absent", 1}))
	require.Equal(t, 6, strings.Count(out.String(), "BenchmarkFigure/"))
	require.Positive(t, done["agentd"])
	require.Positive(t, done["other"])
	b.summary()
	require.Contains(t, notes.String(), "× other")
	require.Contains(t, notes.String(), "absent: not there")

	broken := subject{name: "broken", do: func(context.Context, int) error { return io.ErrUnexpectedEOF }}
	err := b.byTurns(t.Context(), "figure", []subject{one("agentd"), broken})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	b.only = "something else"
	require.NoError(t, b.byTurns(t.Context(), "figure", []subject{broken}))
}

func TestTogether(t *testing.T) {
	var sum [8]int
	require.NoError(t, together(8, 100, func(i int) error { sum[i%8] += i; return nil }))
	total := 0
	for _, n := range sum {
		total += n
	}
	require.Equal(t, 4950, total)
	require.Error(t, together(3, 10, func(i int) error {
		if i == 7 {
			return errors.New("seven")
		}
		return nil
	}))
}

// TestFrames compares with a request that was written down by hand.
func TestFrames(t *testing.T) {
	got := frame(tread, 0x0102, uint32(7), uint64(0x0a0b), uint32(64))
	want := []byte{23, 0, 0, 0, 116, 2, 1, 7, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0}
	require.Equal(t, want, got)
	require.Equal(t, []byte{11, 0, 0, 0, 120, 1, 0, 2, 0, 0, 0}, frame(tclunk, 1, uint32(2)))
	require.Equal(t, []byte{19, 0, 0, 0, 100, 0xff, 0xff, 0, 0x20, 0, 0, 6, 0, '9', 'P', '2', '0', '0', '0'},
		frame(tversion, noTag, uint32(8192), string(plan9)))
}

// TestWireSuite measures agentd for a moment, without the servers of others.
func TestWireSuite(t *testing.T) {
	var out, notes bytes.Buffer
	b := &bench{dir: shortDir(t), out: &out, notes: &notes, peers: []string{"none"}, rounds: 1, turn: time.Millisecond, agentd: agentd(t)}
	require.NoError(t, wireSuite(t.Context(), b))
	for _, name := range []string{"Read64/snapshot/agentd", "Read64/snapshot/floor", "Walkopen/agentd", "9P2000/readdir1000/agentd",
		"Outstanding256/getattr/agentd", "Connections64/read64/agentd", "Read1M/floor", "Write1M/durable/agentd"} {
		require.Contains(t, out.String(), "Benchmark"+name+"-")
	}
}
