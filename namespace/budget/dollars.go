package budget

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// Dollars writes m for a person: in dollars, with at least two places and no
// more than it needs.
func (m Micros) Dollars() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	frac := fmt.Sprintf("%06d", int64(m%1e6))
	for len(frac) > 2 && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	return fmt.Sprintf("%s$%d.%s", sign, int64(m/1e6), frac)
}

// FromDollars reads a number of dollars as JSON has it, such as 0.29 or 5.28e-05,
// exactly down to a micro-dollar and rounded up below. More than Most is Most, and
// an empty text is 0. It reports whether it is a number that is not negative.
func FromDollars(number string) (Micros, bool) {
	if number == "" {
		return 0, true
	}
	about, err := strconv.ParseFloat(number, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax), about < 0, math.IsNaN(about):
		return 0, false
	case about >= float64(Most)/1e6:
		return Most, true
	case about == 0:
		return 0, true
	case about < 1e-6:
		return 1, true
	case len(number) > 1000: // so many digits are a joke
		return 0, false
	}
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, false
	}
	exact.Mul(exact, big.NewRat(1e6, 1))
	micros, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		micros.Add(micros, big.NewInt(1))
	}
	return Micros(micros.Int64()), true
}
