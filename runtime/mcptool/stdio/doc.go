// Package stdio owns MCP sessions with child processes: starting and stopping them in a sandbox, and the lines that they read and write.
//
// It does not own when a child is started again.
package stdio
