// Package host knows the coding agents whose built-in tools Holdpoint gates (hosts): the messages that they give their hooks, the answers that
// they understand, and their native tools.
//
// It reads and writes messages only. Command holdpoint hook and the endpoints of runtime/mcpserver ask the gate.
package host
