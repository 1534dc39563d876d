package budget_test

import (
	"strings"
	"testing"

	"agent9/namespace/budget"
)

func TestFromDollars(t *testing.T) {
	for dollars, want := range map[string]budget.Micros{
		"0.29": 290_000, "2": 2_000_000, "0.0000001": 1, ".5": 500_000, "1.0000010": 1_000_001, "": 0, "0": 0, "-0": 0, "0e9999999": 0,
		"5.28e-05": 53, "0.000053": 53, "0.0000530000000000000000000001": 54, "1E2": 100_000_000, "1e-400": 0, "1e-9999999": 0,
		"1e300": budget.Most, "1e9999": budget.Most, "Inf": budget.Most, "1" + strings.Repeat("0", 300): budget.Most,
		"-1": -1, "-1e-9": -1, "-Inf": -1, "NaN": -1, "x": -1, "{}": -1, "[1]": -1, "true": -1, "1 2": -1, "0." + strings.Repeat("1", 1000): -1,
	} {
		got, ok := budget.FromDollars(dollars)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%.40q: got %d, %v, want %d", dollars, got, ok, want)
		}
	}
}
