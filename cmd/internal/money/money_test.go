package money

import (
	"strings"
	"testing"

	"agent9/fsys"
)

func TestText(t *testing.T) {
	for micros, want := range map[int64]string{0: "$0.00", 5: "$0.000005", 1500000: "$1.50", -250000: "-$0.25"} {
		if got := Text(micros); got != want {
			t.Errorf("Text(%d) = %s, want %s", micros, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"$0.005": 5000, "$1": 1e6, "$.5": 500000, "$2.000001": 2000001, "$0": 0,
		"2usd": 2e6, "2 USD": 2e6, "0.5usd": 500000, "50c": 500000, "0.0001c": 1, "5000microusd": 5000,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%s) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, words := range map[string]string{
		"2": "2usd, 2c or 2microusd", "0.5": "no unit", "5000": "no unit",
		"": "is not an amount", "$": "", "$.": "", "-1": "", "$-1": "", "$1.0000001": "", "0.00001c": "", "1.5microusd": "", "usd": "",
		"$99999999999999999999": "", "2 dollars": "write it as '$2'", "1e3usd": "", "$2usd": "", "0x1usd": "",
	} {
		if got, err := Parse(text); fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(fsys.ReasonOf(err), words) {
			t.Errorf("Parse(%q) = %d, %v; want an Invalid that says %q", text, got, err, words)
		}
	}
}
