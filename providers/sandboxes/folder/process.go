//go:build unix

package folder

// Process is one process of this machine for all time: numbers are used again.
type Process struct {
	PID int `json:"pid"`
	// Born tells it from others that bore the number; empty: not known on
	// this system, and Alive is always false.
	Born string `json:"born,omitempty"`
}

func processOf(pid int) Process { return Process{PID: pid, Born: born(pid)} }

// Alive reports whether the process goes on.
func (p Process) Alive() bool { return p.Born != "" && born(p.PID) == p.Born }

// Kill ends the process, if it is alive. Under Linux it returns when that has
// ended.
func (p Process) Kill() {
	if p.Born != "" {
		kill(p)
	}
}
