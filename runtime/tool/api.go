package tool

import (
	"encoding/json"
	"net/http"
)

// The transports of skills over HTTP APIs.
const (
	OpenAPI Transport = "openapi"  // its tools are the operations of an OpenAPI document
	HTTPAPI Transport = "http-api" // its tools are endpoints that an operator wrote down
)

// IsAPI reports whether a skill is an HTTP API, rather than an MCP server.
func (t Transport) IsAPI() bool { return t == OpenAPI || t == HTTPAPI }

// API is what an operator says of an HTTP API besides its base URL, which is [Server]'s URL, and its secrets.
type API struct {
	// Spec is the URL that the OpenAPI document is read from at each listing. Empty: it was given by value.
	Spec string `json:"spec,omitempty"`
	// Document is the SHA-256 of the OpenAPI document that was given by value, in hex.
	Document string `json:"document,omitempty"`
	// Origins are those (scheme, host and port) of the servers that the document which was given by value names. They are found out when it is given, and
	// say where requests of definitions may go that an earlier document made. Empty: they are not known.
	Origins []string `json:"origins,omitempty"`
	// Include selects operations of the document; empty: all. Exclude takes some away again.
	Include []OperationFilter `json:"include,omitempty"`
	Exclude []OperationFilter `json:"exclude,omitempty"`
	// Endpoints are the tools of a skill of transport http-api.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Auth is how requests are authenticated; its secret is [Server]'s AuthSecret. Nil: by headers, OAuth, or not at all.
	Auth *APIAuth `json:"auth,omitempty"`
	// Preview has the present state of what a PUT, PATCH or DELETE would change read, with the GET of the same path, when somebody
	// looks at a call that waits for a decision.
	Preview bool `json:"preview,omitempty"`
	// NoOutputSchemas leaves the document's response schemas out of the tools, for an API that does not keep to them.
	NoOutputSchemas bool `json:"no_output_schemas,omitempty"`
	// Select are jq programs by tool: what they make of a JSON answer is the result.
	Select map[string]string `json:"-"`
}

// OperationFilter selects operations. All members that are set have to fit; * stands for any characters but /, ** for any, \* for itself.
type OperationFilter struct {
	OperationID string `json:"operation_id,omitempty"` // a pattern
	Tag         string `json:"tag,omitempty"`          // a pattern
	Method      string `json:"method,omitempty"`       // "GET", in whatever case
	Path        string `json:"path,omitempty"`         // a pattern of the path as the document writes it: "/repos/{owner}/**"
}

// Endpoint is one endpoint of an HTTP API, written down by hand.
type Endpoint struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Method      string `json:"method,omitempty"` // default GET
	// Path is below the base URL; {name} stands for a parameter: "/customers/{id}".
	Path string `json:"path"`
	// Parameters by the name of their argument. Those of the path need not be named here.
	Parameters map[string]Parameter `json:"parameters,omitempty"`
	// Body is how parameters in the body are written: json, the default, form or multipart.
	Body string `json:"body,omitempty"`
	// Headers are sent with every request; they are no secrets.
	Headers map[string]string `json:"headers,omitempty"`
	// InputSchema is used instead of the one that is made of the parameters.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// OutputSchema is that of a JSON answer. Default: none.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// Parameter is where an argument of an [Endpoint] goes, and what it may be.
type Parameter struct {
	// In is path, query, header, cookie or body. Default: path where the path has its name, else query for GET, HEAD and
	// DELETE, and body for all others.
	In string `json:"in,omitempty"`
	// Name is what the API calls it. Default: the argument's name.
	Name        string `json:"name,omitempty"`
	Type        string `json:"type,omitempty"` // of JSON Schema; default string
	Description string `json:"description,omitempty"`
	// Required: default true in paths, else false.
	Required *bool `json:"required,omitempty"`
	// Schema is used instead of Type and Description.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// The kinds of [APIAuth].
const (
	APIBearer = "bearer"  // Authorization: Bearer SECRET (RFC 6750)
	APIBasic  = "basic"   // Authorization: Basic, of Username and SECRET (RFC 7617)
	APIKey    = "api_key" // SECRET in the header, query parameter or cookie Name
)

// APIAuth is how requests to an HTTP API are authenticated, without the secret.
type APIAuth struct {
	Type     string `json:"type"`
	In       string `json:"in,omitempty"`       // of api_key: header, query or cookie
	Name     string `json:"name,omitempty"`     // of api_key
	Username string `json:"username,omitempty"` // of basic
}

// Outgoing is the very request that a call sends, secrets masked.
type Outgoing struct {
	Method  string           `json:"method"`
	URL     string           `json:"url"`
	Headers []OutgoingHeader `json:"headers,omitempty"` // in the order they are shown
	Body    []byte           `json:"body,omitempty"`    // as it is sent
}

// OutgoingHeader is one header field of an [Outgoing].
type OutgoingHeader struct {
	Name   string `json:"name"`
	Value  string `json:"value,omitempty"`
	Secret bool   `json:"secret,omitempty"` // the value is not told
}

// State is what a resource looks like before a call changes it.
type State struct {
	Request Outgoing // that it was read with
	Status  int      // HTTP status
	// Body, bounded; Cut: it was longer.
	Body  []byte
	Media string // its content type without parameters
	Cut   bool
}

// Exchange is what was measured of a call's exchange with its server.
type Exchange struct {
	Status         int    // HTTP status of the answer; zero: there was none, or it is no HTTP API
	Sent, Received int64  // bytes of the bodies
	Steps          []Step // in the order they were taken
}

// ReadOnlyMethod reports whether a method of HTTP is safe (RFC 9110, section 9.2.1).
func ReadOnlyMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// BindingMember is the member of a definition that says how arguments become an HTTP request. It is Holdpoint's own: pinned as
// the rest, shown to operators, and not told to agents.
const BindingMember = "x-holdpoint-http"
