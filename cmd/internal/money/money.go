// Package money reads and writes amounts as people do: in US dollars, or in
// another unit that is said. Inside, money is micro-dollars.
package money

import (
	"fmt"
	"strconv"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// units are how an amount can be written, before and after the number, and how
// many decimal places of it a micro-dollar is.
var units = []struct {
	before, after string
	places        int
}{{"$", "", 6}, {"", "microusd", 0}, {"", "usd", 6}, {"", "c", 4}}

// Parse reads an amount: $2, 2usd, 50c or 5000microusd. A number without a unit
// is refused, as is what no micro-dollars can be. Errors are fsys.Invalid and
// say what would be right.
func Parse(text string) (micros int64, err error) {
	s := strings.ToLower(text)
	for _, u := range units {
		number, before := strings.CutPrefix(s, u.before)
		number, after := strings.CutSuffix(number, u.after)
		if !before || !after {
			continue
		}
		if n, ok := parse(strings.TrimSpace(number), u.places); ok {
			return n, nil
		}
		break
	}
	if _, ok := parse(s, 6); ok {
		return 0, fsys.E(fsys.Invalid, fmt.Sprintf("the amount %s has no unit; write '$%[1]s' (with the quotes, in a shell), %[1]susd, %[1]sc or %[1]smicrousd", s))
	}
	return 0, fsys.E(fsys.Invalid, fmt.Sprintf("%q is not an amount; write it as '$2' (with the quotes, in a shell), 2usd, 50c or 5000microusd", text))
}

// parse reads a decimal number, of which the last of so many places is one.
func parse(s string, places int) (int64, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	if len(frac) > places || whole+frac == "" || strings.ContainsAny(s, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint("0"+whole+frac+strings.Repeat("0", places-len(frac)), 10, 63)
	return int64(n), err == nil
}

// Text writes micro-dollars as dollars: see [budget.Micros.Dollars].
func Text(micros int64) string { return budget.Micros(micros).Dollars() }
