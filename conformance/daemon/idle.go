package daemon

import (
	"strconv"
	"strings"
)

func (tr *Tree) Metric(name string) int {
	tr.T.Helper()
	_, rest, _ := strings.Cut(tr.Read("metrics"), "\n"+name+" ")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		tr.T.Fatal(err)
	}
	return n
}
