// Package telemetry owns the export of traces (OpenTelemetry, OTLP over HTTP), and the transport of trace context (W3C Trace
// Context) in HTTP headers, in the _meta of MCP's requests, and in rows of waiting work. Other packages name the spans and
// set their attributes.
//
// # Spans that wait
//
// A call may wait for days and end in another process. An open span exists only in the memory of its process, so it cannot
// wait that long. Instead, [Tracer.Reserve] fixes the span's identity when the work begins. Its bytes are stored beside the
// work, and children refer to it in any process. [Tracer.End] writes the span once, when the work has ended.
//
// # Never in a span
//
// Spans contain no secrets, arguments, results, texts of messages and errors, ids of MCP sessions (which are credentials),
// or people. Attributes are ids, names that operators or servers gave, sizes, statuses and codes. A client's trace context
// only says which spans belong together. It grants nothing.
package telemetry
