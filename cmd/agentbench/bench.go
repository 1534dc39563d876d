package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A bench is one run of agentbench.
type bench struct {
	dir     string    // for everything that is made
	out     io.Writer // lines for benchstat
	notes   io.Writer // what is done, and the summary
	agentd  string
	peers   []string
	rounds  int
	turn    time.Duration
	only    string
	full    bool
	verbose bool

	results []result
}

func (b *bench) say(format string, args ...any) {
	if b.verbose {
		fmt.Fprintf(b.notes, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}

func (b *bench) wants(figure string) bool { return strings.Contains(figure, b.only) }

// scale returns n, or full if that is asked for.
func (b *bench) scale(n, full int) int {
	if b.full {
		return full
	}
	return n
}

// A subject is one of those that take turns.
type subject struct {
	name string
	// do performs n operations.
	do func(ctx context.Context, n int) error
	// spent, if not nil, returns how much processor time the server has had.
	spent func() time.Duration
}

// took is what an operation took in one turn, in nanoseconds.
type took struct{ wall, cpu float64 }

// turn lets s do n operations.
func (s subject) turn(ctx context.Context, n int) (t took, err error) {
	var before time.Duration
	if s.spent != nil {
		before = s.spent()
	}
	start := time.Now()
	err = s.do(ctx, n)
	t.wall = float64(time.Since(start)) / float64(n)
	if s.spent != nil {
		t.cpu = float64(s.spent()-before) / float64(n)
	}
	return t, err
}

// An aim is a bound for a ratio: of the first subject's time to another's.
type aim struct {
	to    string
	bound float64
}

// A result is how one figure came out: for each ratio the median of those of
// the rounds.
type result struct {
	figure string
	value  string // of the first subject
	ratios []ratio
}

type ratio struct {
	aim
	got float64
	cpu float64 // of the servers' processor time; zero if that is not known
	ok  bool    // measured
}

// byTurns measures the same operation on all subjects, one after another in
// each round, and the first against the others. Each subject does in a turn as
// many operations as take about a turn's time.
func (b *bench) byTurns(ctx context.Context, figure string, subjects []subject, aims ...aim) error {
	if !b.wants(figure) {
		return nil
	}
	b.say("%s", figure)
	counts := make([]int, len(subjects))
	for i, s := range subjects {
		n, err := b.calibrate(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", figure, s.name, err)
		}
		counts[i] = n
	}
	walls, cpus := make([][]float64, len(subjects)), make([][]float64, len(subjects)) // by round
	for range b.rounds {
		for i, s := range subjects {
			t, err := s.turn(ctx, counts[i])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", figure, s.name, err)
			}
			walls[i], cpus[i] = append(walls[i], t.wall), append(cpus[i], t.cpu)
			b.line(figure+"/"+s.name, counts[i], t)
		}
	}
	r := result{figure: figure, value: time.Duration(median(walls[0])).Round(10 * time.Nanosecond).String()}
	for _, a := range aims {
		x := ratio{aim: a}
		if i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == a.to }); i >= 0 {
			x.ok, x.got, x.cpu = true, against(walls[0], walls[i]), against(cpus[0], cpus[i])
		}
		r.ratios = append(r.ratios, x)
	}
	b.results = append(b.results, r)
	return nil
}

// calibrate returns how many operations of s take about a turn.
func (b *bench) calibrate(ctx context.Context, s subject) (int, error) {
	for n := 1; ; {
		start := time.Now()
		if err := s.do(ctx, n); err != nil {
			return 0, err
		}
		took := time.Since(start)
		if took >= b.turn/2 || n >= 1<<24 {
			return max(1, int(float64(n)*float64(b.turn)/float64(took))), nil
		}
		n = min(10*n, max(n+1, int(float64(n)*float64(b.turn)/float64(took+1))))
	}
}

// against returns the median over the rounds of what one took for each of what
// another did; zero if that is not known.
func against(one, other []float64) float64 {
	var ratios []float64
	for round, t := range other {
		if t == 0 {
			return 0
		}
		ratios = append(ratios, one[round]/t)
	}
	return median(ratios)
}

func median(all []float64) float64 { return quantile(all, 0.5) }

// quantile returns the least value that a part q of all does not exceed.
func quantile(all []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// line prints a line for benchstat.
func (b *bench) line(name string, n int, t took) {
	fmt.Fprintf(b.out, "Benchmark%s-%d\t%d\t%.6g ns/op", capital(name), runtime.NumCPU(), n, t.wall)
	if t.cpu > 0 {
		fmt.Fprintf(b.out, "\t%.6g server-cpu-ns/op", t.cpu)
	}
	fmt.Fprintln(b.out)
}

func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// found reports a figure that is not measured by turns: its value, and how it
// stands to a bound in the same unit.
func (b *bench) found(figure string, value float64, unit string, aims ...aim) {
	fmt.Fprintf(b.out, "Benchmark%s-%d\t1\t%.6g %s\n", capital(figure), runtime.NumCPU(), value, unit)
	r := result{figure: figure, value: fmt.Sprintf("%.4g %s", value, unit)}
	for _, a := range aims {
		r.ratios = append(r.ratios, ratio{aim: a, got: value, ok: true})
	}
	b.results = append(b.results, r)
}

// summary prints the ratios.
func (b *bench) summary() {
	w := tabwriter.NewWriter(b.notes, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, r := range b.results {
		fmt.Fprintf(w, "%s\t%s", r.figure, r.value)
		for _, r := range r.ratios {
			switch {
			case !r.ok:
				fmt.Fprintf(w, "\t%s: not there", r.to)
			case r.bound == 0:
				fmt.Fprintf(w, "\t%.2f × %s", r.got, r.to)
			default:
				verdict := "yes"
				if r.got > r.bound {
					verdict = "NO"
				}
				fmt.Fprintf(w, "\t%.2f × %s (≤ %.4g: %s)", r.got, r.to, r.bound, verdict)
			}
			if r.cpu > 0 {
				fmt.Fprintf(w, " cpu %.2f ×", r.cpu)
			}
		}
		fmt.Fprintln(w)
	}
}

// cpuModel is what the system calls its processors.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
