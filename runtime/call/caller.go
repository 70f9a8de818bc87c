package call

import (
	"encoding/json"
)

// Caller is what a call's client can be told and asked while the call's server works on it. The
// zero value is told and asked nothing.
type Caller struct {
	// Capabilities are those of elicitation, sampling and roots that the client declared, as an MCP
	// ClientCapabilities object. Nil: it can be asked nothing.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	// LogLevel is the least level of the log messages that it wants. Empty: none.
	LogLevel string `json:"log_level,omitempty"`
	// Progress: it wants to know how far the call is.
	Progress bool `json:"progress,omitempty"`
	// Depth is how many agents have asked each other so that this call is made. Zero: a client made it.
	Depth int `json:"depth,omitempty"`
}

func (c Caller) zero() bool {
	return c.Capabilities == nil && c.LogLevel == "" && !c.Progress && c.Depth == 0
}

// stored is null for most.
func (c Caller) stored() *string {
	if c.zero() {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil // capabilities that are no JSON are none
	}
	s := string(text)
	return &s
}
