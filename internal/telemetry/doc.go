// Package telemetry owns how traces leave the process (OpenTelemetry, OTLP over HTTP) and how trace context (W3C Trace
// Context) is read from and written to what carries it: HTTP headers, the _meta of MCP's requests, the rows of what
// waits. What a span is about is said by the package that does it.
//
// # Spans that wait
//
// A call may wait for days and end in another process than the one that took it in. A span that is open only exists in
// the memory of its process, so none is kept open for that: [Tracer.Reserve] fixes the span's identity when the work
// begins, its bytes are stored beside the work, children point to it from then on in whichever process, and
// [Tracer.End] writes the span, once, when its end is known.
//
// # What is never in a span
//
// Secrets, arguments, results, the texts of messages and errors, ids of MCP sessions (whoever has one may use it), and
// people: attributes are ids, names that operators or servers gave, sizes, statuses and codes. A trace context that a
// client hands in says which spans belong together, and grants nothing.
package telemetry
