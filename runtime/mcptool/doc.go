// Package mcptool owns the connections to MCP skill servers, over streamable
// HTTP and over stdio, in both eras of the protocol: it is the [tool.Source]
// that discovers their tools and carries calls to them. It owns sessions, child
// processes and what is known about whether a call was sent. It does not own
// who may call, when, or with which credentials, and it validates no arguments
// and no results against schemas.
//
// # What the SDK does here, and what it does not
//
// The official SDK connects and negotiates: it speaks server/discover,
// initialize and the closing of a session, so revisions are its concern.
// tools/list and tools/call go past it, on the session that it negotiated,
// because a gate needs three things of them that a typed client cannot give:
//
//   - Exactness. Arguments leave, and results and definitions arrive, byte for
//     byte. The SDK decodes into structs, which loses unknown members and large
//     numbers, and shows "resultType": "task" as an empty success.
//   - At most once. A failed call must be known to have been sent or not. The
//     SDK reports every failed write alike, and its 404 or an undecodable answer
//     ends the session for all calls that are on their way; here a call fails
//     alone. No request that carries a call is ever repeated by net/http, and
//     what was written is counted below it (see [outbound.Wire]).
//   - Bounds. The SDK reads JSON answers and error bodies without a limit, waits
//     for server/discover and for its standalone stream without one, and fails
//     a stdio connection at the first line that is not JSON.
//
// It also costs less: one request and no goroutine a call with a JSON answer.
//
// # Files
//
// source.go is the surface. keeper.go keeps one peer (an initialized server)
// for each skill; http*.go and stdio*.go are the two kinds of peer; list.go,
// call.go and ask.go (everything else) are what is asked of a peer, whichever kind it is.
//
// errand.go is one call or request over all its rounds, and who it is made for;
// clock.go the time that it has. question.go is what a server asks back meanwhile: as
// requests of its own before 2026-07-28 (asked.go), as results that ask for input
// since (rounds.go). follow.go follows a task that a server answers with,
// legacytask.go says when one of MCP 2025-11-25 is asked for; loglevel.go has sessions log.
package mcptool
