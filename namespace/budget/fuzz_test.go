package budget

import (
	"testing"

	"agent9/conformance/strict"
)

func FuzzLimits(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"per_day_microusd":5000000,"total_microusd":null}`, `{"per_tick_microusd":-1}`, `{"per_day_microusd":1e3}`, `{"parent":"team"}`,
		`null`, `{}}`, `{} {}`, `{"approval_threshold_microusd":1,"approval_expires_ms":5}`, `{"total_microusd":9223372036854775807}`, `{"x":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) { strict.Object(t, in, parseLimits) })
}
