package fsys_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
)

func TestTapeEveryReaderSeesAll(t *testing.T) {
	var data fsys.Memory
	tape := fsys.NewTape(&data)
	const readers, lines = 20, 200
	var wg sync.WaitGroup
	got := make([]string, readers)
	for i := range readers {
		wg.Go(func() {
			b, err := fsys.ReadFile(t.Context(), tape, "")
			got[i] = string(b)
			if err != nil {
				t.Error(err)
			}
		})
	}
	var want strings.Builder
	for i := range lines {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		data.Append([]byte(line))
		tape.Grown()
	}
	tape.End()
	wg.Wait()
	for i := range got {
		require.Equal(t, want.String(), got[i])
	}
}

func TestTapeResumesAndIsCancelled(t *testing.T) {
	var data fsys.Memory
	data.Append([]byte("0123456789"))
	tape := fsys.NewTape(&data)
	h, err := tape.Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	p := make([]byte, 100)
	n, err := fsys.ReadAt(t.Context(), h, p, 7)
	require.NoError(t, err)
	require.Equal(t, "789", string(p[:n]))

	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { _, err := fsys.ReadAt(ctx, h, p, 10); result <- err }()
	cancel()
	require.Equal(t, fsys.Canceled, fsys.CodeOf(<-result))

	info, err := tape.Stat(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, info.Size)
	_, err = tape.Open(t.Context(), fsys.Write)
	require.ErrorIs(t, err, fsys.Permission)
}

func TestLiveBeginsAtTheEnd(t *testing.T) {
	var data fsys.Memory
	data.Append([]byte("old\n"))
	tape := fsys.NewTape(&data)
	h, err := tape.Live().Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	data.Append([]byte("new\n"))
	tape.End()
	b, err := fsys.ReadAll(t.Context(), h)
	require.NoError(t, err)
	require.Equal(t, "new\n", string(b))
}

func TestFeed(t *testing.T) {
	feed := &fsys.Feed{Limit: 16}
	feed.Publish([]byte("nobody\n"))
	h, err := feed.Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	p := make([]byte, 100)
	got := make(chan string)
	go func() { n, _ := fsys.ReadAt(t.Context(), h, p, 0); got <- string(p[:n]) }()
	feed.Publish([]byte("one\n"))
	require.Equal(t, "one\n", <-got)

	for i := range 4 {
		feed.Publish([]byte(fmt.Sprintf("line %d\n", i))) // 7 bytes each
	}
	n, err := fsys.ReadAt(t.Context(), h, p, 4)
	require.NoError(t, err)
	require.Equal(t, "{\"event\":\"lost\",\"bytes\":14}\nline 2\nline 3\n", string(p[:n]))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = fsys.ReadAt(ctx, h, p, 0)
	require.Equal(t, fsys.Canceled, fsys.CodeOf(err))
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	feed.Publish([]byte("after\n"))
}

// Who awaits more of a tape is called once, when there is what they wait for.
func TestTapeAwait(t *testing.T) {
	var data fsys.Memory
	data.Append([]byte("0123"))
	tape := fsys.NewTape(&data)
	h, err := tape.Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	require.Nil(t, fsys.Await(h, 3, func() { t.Error("called for what is there") }))
	called := make([]int, 4)
	var stops []func()
	for i, off := range []int64{4, 4, 6, 100} {
		stops = append(stops, fsys.Await(h, off, func() { called[i]++ }))
		require.NotNil(t, stops[i])
	}
	stops[1]()
	data.Append([]byte("45"))
	tape.Grown()
	require.Equal(t, []int{1, 0, 0, 0}, called)
	data.Append([]byte("6"))
	tape.Grown()
	require.Equal(t, []int{1, 0, 1, 0}, called)
	tape.End()
	require.Equal(t, []int{1, 0, 1, 1}, called)
	for _, stop := range stops {
		stop()
	}
	require.Nil(t, fsys.Await(h, 100, func() { t.Error("called after the end") }))
}

// Readers that come and go while a tape grows are called unless they stopped.
func TestTapeAwaitRace(t *testing.T) {
	var data fsys.Memory
	tape := fsys.NewTape(&data)
	h, err := tape.Live().Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	var readers, writer sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			for off := int64(0); off < 500; {
				ready := make(chan struct{})
				stop := fsys.Await(h, off, func() { close(ready) })
				switch {
				case stop == nil:
					off++
				case i%2 == 0:
					<-ready
				default:
					stop()
				}
			}
		})
	}
	writer.Go(func() {
		for range 500 {
			data.Append([]byte("x"))
			tape.Grown()
		}
	})
	writer.Wait()
	readers.Wait()
}
