package main

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"agent9/fsys"
)

// The variables of OpenTelemetry that say where traces go; it reads these and
// its others by itself.
var traceVars = []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}

// openTrace returns what sends spans to where the environment says, and its
// end, which sends the last. Without an endpoint the trace is nil.
func openTrace(ctx context.Context, getenv func(string) string) (fsys.Trace, func(context.Context) error, error) {
	wanted := false
	for _, name := range traceVars {
		wanted = wanted || getenv(name) != ""
	}
	if !wanted || getenv("OTEL_SDK_DISABLED") == "true" {
		return nil, func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fsys.Wrap(fsys.Invalid, "the settings of OpenTelemetry", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "agentd")), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, nil, fsys.Wrap(fsys.Invalid, "the settings of OpenTelemetry", err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	tracer := provider.Tracer("agent9")
	begin := func(ctx, cause context.Context, name string, attributes ...string) (context.Context, func(string)) {
		ctx = api.ContextWithSpanContext(ctx, api.SpanContextFromContext(cause))
		ctx, span := tracer.Start(ctx, name)
		for i := 1; i < len(attributes); i += 2 {
			if attributes[i] != "" {
				span.SetAttributes(attribute.String("agent9."+attributes[i-1], attributes[i]))
			}
		}
		return ctx, func(code string) {
			if code != "" {
				span.SetStatus(codes.Error, code)
			}
			span.End()
		}
	}
	return begin, provider.Shutdown, nil
}

// cause reads traceparent, by which a client says what its request is part of.
func cause(ctx context.Context, h http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
}
