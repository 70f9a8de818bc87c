package tool

// Capabilities are the capabilities that a server declared. A request that needs another one is not sent, see [Requester].
type Capabilities struct {
	ProtocolVersion string // the negotiated one, "2025-11-25"

	Tools, ToolsListChanged         bool
	Resources, ResourcesListChanged bool
	ResourcesSubscribe              bool // before 2026-07-28: resources/subscribe; since: subscriptions/listen
	Prompts, PromptsListChanged     bool
	Completions                     bool
	Logging                         bool // logging/setLevel, before 2026-07-28
	Tasks                           bool // the extension io.modelcontextprotocol/tasks
}

// StatelessVersion is the first revision of MCP without sessions.
const StatelessVersion = "2026-07-28"

// Stateless reports whether the server speaks MCP 2026-07-28 or later, which has no sessions, and so
// neither resources/subscribe nor logging/setLevel.
func (c Capabilities) Stateless() bool { return c.ProtocolVersion >= StatelessVersion }

// Offers reports whether a server with these capabilities may have a method. Methods that need no capability, and methods that MCP does
// not define, may exist.
func (c Capabilities) Offers(method string) bool {
	switch method {
	case "tools/list", "tools/call":
		return c.Tools
	case "resources/list", "resources/templates/list", "resources/read":
		return c.Resources
	case "resources/subscribe", "resources/unsubscribe":
		return c.ResourcesSubscribe && !c.Stateless()
	case "prompts/list", "prompts/get":
		return c.Prompts
	case "completion/complete":
		return c.Completions
	case "logging/setLevel":
		return c.Logging && !c.Stateless()
	case "tasks/get", "tasks/update", "tasks/cancel":
		return c.Tasks
	}
	return true
}
