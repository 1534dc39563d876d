package fsys

import "context"

// A Trace begins a span called name, for who watches where time goes. The
// context that it returns is ctx with the span, which was caused by what cause
// is part of. attributes are keys and values, and contain no secrets and
// nothing that a person or a model wrote. end ends the span; code is that of
// the error, or empty.
type Trace func(ctx, cause context.Context, name string, attributes ...string) (traced context.Context, end func(code string))

// Begin is t, also where there is none.
func (t Trace) Begin(ctx, cause context.Context, name string, attributes ...string) (traced context.Context, end func(code string)) {
	if t == nil {
		return ctx, func(string) {}
	}
	return t(ctx, cause, name, attributes...)
}

// Outcome is what the end of a span is told of err.
func Outcome(err error) string {
	if err == nil || IsEOF(err) {
		return ""
	}
	return CodeOf(err).String()
}
