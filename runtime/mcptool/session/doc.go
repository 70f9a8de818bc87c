// Package session owns the parts of MCP that both transports share: JSON-RPC messages and requests, negotiation with the official SDK, the
// operations that requests belong to, and the questions that servers ask their callers. Transports implement [Session].
//
// It does not own connections or processes, nor when a session is opened, shared or closed.
package session
