package containers

import (
	"fmt"
	"strconv"
	"strings"
)

// A Thousandth is a number of up to three decimals, such as 0.5 in JSON, kept
// as 500.
type Thousandth int64

func (t Thousandth) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt(nil, int64(t)/1000, 10)
	if frac := int64(t) % 1000; frac != 0 {
		b = append(b, strings.TrimRight(fmt.Sprintf(".%03d", frac), "0")...)
	}
	return b, nil
}

func (t *Thousandth) UnmarshalJSON(b []byte) error {
	whole, frac, _ := strings.Cut(string(b), ".")
	n, err := strconv.ParseUint(whole+(frac + "000")[:3], 10, 32)
	if err != nil || len(frac) > 3 {
		return fmt.Errorf("%.40s is not a number such as 1 or 0.5", b)
	}
	*t = Thousandth(n)
	return nil
}
