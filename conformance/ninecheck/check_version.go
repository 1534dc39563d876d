package ninecheck

// versionAnswered is the one check that a server is asked which does not speak
// the dialect.
var versionAnswered = Check{
	Name: "version/answered",
	Says: "version(5): Tversion gets exactly one Rversion, with the version, an earlier one or unknown, and an msize that is at most the client's; never an error",
	run: func(t *trial) {
		c := t.dial()
		r := c.ask("Tversion", askedMsize, c.dialect.version)
		c.judgeVersion(r, askedMsize, c.dialect.version, Plan9, "unknown")
		c.silent()
	},
}

// versionRefused is what a server is asked that does not speak the dialect. There
// are clients that go on all the same (9pfuse).
var versionRefused = Check{
	Name: "version/refused",
	Says: "intro(5): a reply has the tag of its request; so has the refusal of one that comes after a version was refused, or the connection ends",
	run: func(t *trial) {
		c := t.dial()
		c.send("Tversion", askedMsize, c.dialect.version)
		c.recv(c.Limit)
		clear(c.waiting)
		tag := c.send("Tattach", c.attach(0)...)
		for c.got[tag] == nil {
			if _, err := c.recv(c.Limit); err == errHungUp {
				return
			} else if err != nil {
				c.fatalf("no answer to Tattach within %v", c.Limit)
			}
		}
		if m := c.got[tag]; !m.isError() {
			c.errorf("Tattach is answered with %s although there is no version", m.name)
		}
	},
}

// judgeVersion checks an Rversion.
func (c *conn) judgeVersion(r *message, asked uint32, may ...string) {
	if r.name != "Rversion" {
		panic(stop{}) // recorded by judge
	}
	got, msize := r.text("version"), uint32(r.num("msize"))
	ok := false
	for _, v := range may {
		ok = ok || got == v
	}
	if !ok {
		c.errorf("the version is %q; possible are %q", got, may)
	}
	if msize > asked {
		c.errorf("msize is %d although the client said %d", msize, asked)
	}
	if msize < 24 && asked >= 24 {
		c.errorf("msize is %d, with which nothing can be said", msize)
	}
}

var versionChecks = []Check{
	{
		Name: "version/unknown",
		Says: "version(5): a version that the server does not understand gets one Rversion with unknown; the client may then try another one",
		run: func(t *trial) {
			c := t.dial()
			c.judgeVersion(c.ask("Tversion", askedMsize, "9Q3000"), askedMsize, "unknown")
			c.silent()
			c.version(askedMsize)
			c.must("Tattach", c.attach(0)...)
		},
	},
	{
		Name: "version/suffix",
		Says: "version(5): what follows a period is stripped, and the answer is a version that the rest of the string defines, or unknown",
		run: func(t *trial) {
			for _, v := range []string{"9P2000.ninecheck", "9P2000.u"} {
				c := t.dial()
				c.judgeVersion(c.ask("Tversion", askedMsize, v), askedMsize, v, Plan9, "unknown")
				c.silent()
			}
		},
	},
	{
		Name: "version/msize",
		Says: "version(5): the server's msize is less than or equal to the client's, and both sides honour it",
		run: func(t *trial) {
			for _, msize := range []uint32{4096, askedMsize, 1 << 16, 1<<32 - 1} {
				c := t.dial()
				r := c.ask("Tversion", msize, c.dialect.version)
				c.judgeVersion(r, msize, c.dialect.version)
			}
		},
	},
	{
		Name: "version/small",
		Says: "version(5): the server's msize is less than or equal to the client's; a client that can take too little gets unknown, or the end",
		run: func(t *trial) {
			for _, msize := range []uint32{64, 256} {
				c := t.dial()
				tag := c.send("Tversion", msize, c.dialect.version)
				if _, err := c.recv(c.Limit); err == errHungUp {
					continue
				}
				c.judgeVersion(c.await(tag), msize, c.dialect.version, "unknown")
			}
		},
	},
	{
		Name: "version/reset",
		Says: "version(5): a Tversion on a connection in use begins a new session: its fids are freed",
		run: func(t *trial) {
			c := t.session()
			fid := c.at()
			c.version(askedMsize)
			c.unknown(fid, "the fid is of the session before")
			c.unknown(0, "the fid is of the session before")
			c.must("Tattach", c.attach(0)...)
			c.clunk(c.at())
		},
	},
	{
		Name: "version/first",
		Says: "version(5): Tversion must be the first message; before it nothing else has a meaning",
		run: func(t *trial) {
			c := t.dial()
			tag := c.send("Tattach", c.attach(0)...)
			if _, err := c.recv(c.Limit); err == errHungUp {
				return
			}
			if m := c.await(tag); !m.isError() {
				c.errorf("Tattach before Tversion is answered with %s", m.name)
			}
		},
	},
}
