package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

// refreshEvery is how often the board is read and shown, and relistEvery how
// often it is compared with all that there is: a stream of events does not wait
// for those who read it too slowly.
const (
	refreshEvery = 500 * time.Millisecond
	relistEvery  = time.Minute
)

// live shows the board on t until the user has enough.
func (b *board) live(t *terminal) error {
	ctx, cancel := context.WithCancel(b.Context.Context)
	defer cancel()
	if err := b.begin(); err != nil {
		return err
	}
	lines, lost, err := b.follow(ctx)
	if err != nil {
		return err
	}
	restore, err := t.raw()
	if err != nil {
		return err
	}
	defer restore()
	out := plain.Bare(b.App.Writer)
	io.WriteString(out, enterScreen)
	defer io.WriteString(out, leaveScreen)

	v := newTopView(t)
	resized := make(chan struct{}, 1)
	go t.watch(ctx, func(rows, cols int) {
		select {
		case resized <- struct{}{}:
		default:
		}
	})
	pressed := keys(ctx, b.App.Reader)
	read := make(chan found, 1)
	refresh, relist := time.NewTicker(refreshEvery), time.NewTicker(relistEvery)
	defer refresh.Stop()
	defer relist.Stop()
	b.refresh(read)
	for {
		v.draw(b)
		select {
		case line := <-lines:
			b.happened(line)
			for more := len(lines); more > 0; more-- {
				b.happened(<-lines)
			}
			continue
		case f := <-read:
			b.reading = false
			if f.err != nil {
				return f.err
			}
			b.put(f)
			if !v.complete {
				b.refresh(read)
			}
			v.complete = v.complete || len(b.dirty) == 0
			v.stale = true
		case <-refresh.C:
			b.tick()
			b.refresh(read)
			v.stale = true
		case <-relist.C:
			if err := b.begin(); err != nil {
				return err
			}
		case <-resized:
			v.resize()
		case k, ok := <-pressed:
			if !ok || v.key(k) {
				return nil
			}
		case err := <-lost:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refresh reads in the background what has changed, if anything has.
func (b *board) refresh(to chan<- found) {
	if b.reading || len(b.dirty)+len(b.touched) == 0 {
		return
	}
	b.reading = true
	w := b.take()
	go func() { to <- b.read(w) }() // to has room for it, also when nobody waits
}

// tick counts the events, and lets go of what ended.
func (b *board) tick() {
	b.rate = b.events * int(time.Second/refreshEvery)
	b.events = 0
	b.sweep(time.Now())
}

// follow gives the events from now on, until ctx ends.
func (b *board) follow(ctx context.Context) (<-chan []byte, <-chan error, error) {
	p := "events"
	if b.own != "" {
		p = "logs/trace"
	}
	h, err := b.open(p, fsys.Read)
	if err != nil {
		return nil, nil, at(p, err)
	}
	lines, lost := make(chan []byte, 1024), make(chan error, 1)
	r, w := io.Pipe()
	go func() { // ends with ctx, or the stream
		defer h.Close()
		err := copyUntil(ctx, w, h, 0, -1)
		if err == nil {
			err = fsys.E(fsys.Unavailable, "the stream of events has ended")
		}
		lost <- at(p, err)
		w.CloseWithError(err)
	}()
	go func() { // ends with the pipe, or with ctx
		defer r.Close()
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines, lost, nil
}

// A key is what was pressed.
type key int

const (
	keyOther key = iota
	keyQuit
	keySort
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
)

// keys gives what is pressed. It ends with the input, or with the process: a
// read of a terminal cannot be interrupted.
func keys(ctx context.Context, in io.Reader) <-chan key {
	pressed := make(chan key)
	go func() {
		defer close(pressed)
		buf := make([]byte, 64)
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			for b := buf[:n]; len(b) > 0; {
				k, size := keyIn(b)
				b = b[size:]
				select {
				case pressed <- k:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return pressed
}

// keyIn returns the first key of b and how many bytes it has.
func keyIn(b []byte) (key, int) {
	for sequence, k := range map[string]key{
		"\x1b[A": keyUp, "\x1b[B": keyDown, "\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown, "\x1b[H": keyHome, "\x1b[F": keyEnd,
		"\x1bOA": keyUp, "\x1bOB": keyDown, "k": keyUp, "j": keyDown, "q": keyQuit, "Q": keyQuit, "\x03": keyQuit, "\x04": keyQuit,
		"s": keySort, "g": keyHome, "G": keyEnd, " ": keyPageDown,
	} {
		if len(b) >= len(sequence) && string(b[:len(sequence)]) == sequence {
			return k, len(sequence)
		}
	}
	if b[0] == 0x1b {
		return keyOther, len(b)
	}
	return keyOther, 1
}

// Sequences of a terminal: another screen without a cursor and without
// wrapping, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

func moveTo(row int) string { return fmt.Sprintf("\x1b[%d;1H", row+1) }
