// Package mcptool is the [tool.Source] of MCP skill servers. It keeps one session for each skill, lists tools, sends calls and other
// requests, passes the questions of servers to callers, follows tasks, and knows whether a call may have been sent.
//
// It does not own who may call, when, or with which credentials, and it validates no arguments or results against schemas. Package session
// below it has the messages and the negotiation, packages streamable and stdio the two transports.
//
// # The use of the official SDK
//
// The official SDK connects, negotiates the revision (server/discover, initialize) and closes sessions. All other requests bypass the SDK
// and use the session that it negotiated, because a gate needs three guarantees that a typed client cannot give:
//
//   - Exactness. Arguments, results and definitions pass byte for byte. The SDK decodes into structs, which loses unknown members and
//     large numbers, and shows "resultType": "task" as an empty success.
//   - At most once. A failed call must be known to have been sent or not. The SDK reports all failed writes alike, and after a 404 or an
//     undecodable answer it ends the session for all running calls; here a call fails alone. net/http never repeats the request of a call,
//     and the written bytes are counted below it (see outbound.Wire).
//   - Bounds. The SDK reads JSON answers and error bodies without a limit, waits for server/discover and for its stream of announcements
//     without a timeout, and fails a stdio connection at the first line that is not JSON.
//
// It also costs less: a call with a JSON answer takes one request and no goroutine.
package mcptool
