package host

// The names of the hosts.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	Copilot    = "copilot"
	Cursor     = "cursor"
	Gemini     = "gemini"
	OpenCode   = "opencode"
)
