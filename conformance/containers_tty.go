package conformance

import (
	"io"
	"strings"

	"agent9/providers/sandboxes"
)

var terminalRules = []boxRule{
	{"terminal", inBox.terminal},
	{"terminal resize", inBox.terminalResize},
	{"terminal Ctrl-C", inBox.terminalInterrupt},
	{"terminal end of file", inBox.terminalEnd},
}

func onTerminal(script string) sandboxes.Command {
	cmd := shell(script)
	cmd.TTY = &sandboxes.Size{Rows: 20, Cols: 70}
	return cmd
}

func (in inBox) terminal() {
	const isOne = "test -t 0 && test -t 1 && test -t 2 && echo yes || echo no"
	r := in.exec(onTerminal("stty size; echo err >&2; "+isOne), sandboxes.Streams{})
	if r.out != "20 70\r\nerr\r\nyes\r\n" || r.err != "" || r.exit.Code != 0 {
		in.Errorf("on a terminal: %q, %q, %+v", r.out, r.err, r.exit)
	}
	if r := in.sh(isOne); r.out != "no\n" {
		in.Errorf("without a terminal, is there one? %q", r.out)
	}
}

func (in inBox) terminalResize() {
	sizes := make(chan sandboxes.Control)
	reader, writer := io.Pipe()
	defer writer.Close()
	b, _ := in.start(onTerminal("trap 'echo now; stty size' WINCH; echo ready; while :; do sleep 0.05; done"), sandboxes.Streams{Stdin: reader, Control: sizes})
	b.until(in, "ready")
	sizes <- sandboxes.Control{Size: sandboxes.Size{Rows: 33, Cols: 111}}
	b.until(in, "33 111")
}

// terminalInterrupt types Ctrl-C when the program is sure to run: a shell may
// miss one that comes while it begins a program.
func (in inBox) terminalInterrupt() {
	reader, writer := io.Pipe()
	defer writer.Close()
	b, _ := in.start(onTerminal("stty -echo; echo ready; cat; echo not reached"), sandboxes.Streams{Stdin: reader})
	b.until(in, "ready")
	io.WriteString(writer, "typed\n")
	b.until(in, "typed")
	io.WriteString(writer, "\x03")
	b.wait(in)
	if b.err != nil || b.r.exit.Code != 130 || strings.Contains(b.r.all, "not reached") {
		in.Errorf("after Ctrl-C: %+v, %q, %v", b.r.exit, b.r.all, b.err)
	}
}

func (in inBox) terminalEnd() {
	cmd := onTerminal("stty -echo; echo ready; cat; echo end")
	reader, writer := io.Pipe()
	b, _ := in.start(cmd, sandboxes.Streams{Stdin: reader})
	b.until(in, "ready")
	io.WriteString(writer, "typed\n")
	b.until(in, "typed")
	writer.Close()
	b.until(in, "end")
	b.wait(in)
	if b.r.exit.Code != 0 {
		in.Errorf("it ended with %+v", b.r.exit)
	}
}
