// Package streamable owns MCP sessions over streamable HTTP: requests and their tokens, answers as JSON or as streams of events that are
// resumed, and the stream of a server's announcements.
//
// It does not own when a session is opened or renewed: an [session.Outcome] says when it should be.
package streamable
