package ninecheck

// Types and results of Tlock.
const (
	readLock, writeLock, unlock = 0, 1, 2
	locked, lockBlocked         = 0, 1
)

// lock sends Tlock of a range.
func (c *conn) lock(fid uint32, kind, start, length, proc int) *message {
	return c.ask("Tlock", fid, kind, 0, start, length, proc, "ninecheck")
}

var lockChecks = []Check{
	{
		Name: "lock/conflict",
		Says: "protocol.md lock: as fcntl(F_SETLK): a range that another one has locked is not given (status 1), and is after it was unlocked",
		need: needWrite,
		only: Linux,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			other := t.session()
			a, b := d.opened(modeRdWr, d.to("a")...), other.opened(modeRdWr, d.to("a")...)
			first := d.lock(a, writeLock, 0, 4, 1)
			if first.isError() {
				d.skip("the server has no locks: %s", first)
			}
			if s := first.num("status"); s != locked {
				d.fatalf("a lock of a file that nobody has locked has status %d", s)
			}
			if m := other.lock(b, writeLock, 2, 10, 2); !m.isError() && m.num("status") == locked {
				d.errorf("two clients have locked the same bytes for writing")
			}
			if m := other.lock(b, writeLock, 4, 3, 2); m.isError() || m.num("status") != locked {
				d.errorf("bytes that nobody has locked cannot be: %s", m)
			}
			m := other.must("Tgetlock", b, writeLock, 0, 1, 2, "ninecheck")
			if m.num("type") != writeLock {
				d.errorf("getlock does not see the lock of another client: %s", m)
			}
			if m := d.lock(a, unlock, 0, 0, 1); m.isError() || m.num("status") != locked {
				d.errorf("the lock cannot be given back: %s", m)
			}
			if m := other.lock(b, writeLock, 0, 4, 2); m.isError() || m.num("status") != locked {
				d.errorf("after it was unlocked the file cannot be locked: %s", m)
			}
		},
	},
	{
		Name: "lock/hang-up",
		Says: "fcntl(2): a lock ends with who has it; so with the connection",
		need: needWrite,
		only: Linux,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			other := t.session()
			b := other.opened(modeRdWr, d.to("a")...)
			m := other.lock(b, writeLock, 0, 0, 2)
			if m.isError() || m.num("status") != locked {
				d.skip("the server has no locks: %s", m)
			}
			fid := d.opened(modeRdWr, d.to("a")...)
			if m := d.lock(fid, writeLock, 0, 0, 1); !m.isError() && m.num("status") == locked {
				d.errorf("two clients have locked the same file for writing")
				return
			}
			other.net.Close()
			if !d.comes(func() bool { m := d.lock(fid, writeLock, 0, 0, 1); return !m.isError() && m.num("status") == locked }) {
				d.errorf("the lock of a client that hung up is still there after %v", d.Limit)
			}
		},
	},
}
