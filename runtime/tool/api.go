package tool

import "encoding/json"

// The transports of skills over HTTP APIs.
const (
	OpenAPI Transport = "openapi"  // the tools are the operations of an OpenAPI document
	HTTPAPI Transport = "http-api" // the tools are endpoints that an operator wrote by hand
)

// IsAPI reports whether the skill is an HTTP API and not an MCP server.
func (t Transport) IsAPI() bool { return t == OpenAPI || t == HTTPAPI }

// API holds an operator's settings of an HTTP API, except the base URL and the secrets, which are in [Server]. Package
// runtime/httptool/setting knows their rules.
type API struct {
	// Spec is the URL that each listing reads the OpenAPI document from. Empty: the document was given by value.
	Spec string `json:"spec,omitempty"`
	// Document is the SHA-256, in hex, of an OpenAPI document that was given by value.
	Document string `json:"document,omitempty"`
	// Origins are the origins (scheme, host and port) of the servers that a document given by value names. They are recorded with the
	// document, and limit where definitions made from an earlier document may send requests. Empty: not known.
	Origins []string `json:"origins,omitempty"`
	// Include selects operations of the document. Empty: all. Exclude removes some of them.
	Include []OperationFilter `json:"include,omitempty"`
	Exclude []OperationFilter `json:"exclude,omitempty"`
	// Endpoints are the tools of a skill with transport http-api.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Auth is how requests authenticate. Its secret is [Server]'s AuthSecret. Nil: by headers, OAuth, or not at all.
	Auth *APIAuth `json:"auth,omitempty"`
	// Preview reads the current state of the resource of a PUT, PATCH or DELETE, with the GET of the same path, when a
	// reviewer looks at a pending call.
	Preview bool `json:"preview,omitempty"`
	// NoOutputSchemas leaves response schemas out of the tools, for an API that does not keep to its own schemas.
	NoOutputSchemas bool `json:"no_output_schemas,omitempty"`
	// Select holds jq programs by tool name. The output of the program replaces a JSON answer.
	Select map[string]string `json:"-"`
}

// OperationFilter selects operations. All members that are set must match. In patterns * matches any characters except /, ** any
// characters, and \* a star.
type OperationFilter struct {
	OperationID string `json:"operation_id,omitempty"` // a pattern
	Tag         string `json:"tag,omitempty"`          // a pattern
	Method      string `json:"method,omitempty"`       // "GET"; case does not matter
	Path        string `json:"path,omitempty"`         // a pattern of the path as the document writes it: "/repos/{owner}/**"
}

// Endpoint is an endpoint of an HTTP API that an operator wrote by hand.
type Endpoint struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Method      string `json:"method,omitempty"` // default GET
	// Path is appended to the base URL. {name} stands for a parameter: "/customers/{id}".
	Path string `json:"path"`
	// Parameters by argument name. Parameters of the path may be left out.
	Parameters map[string]Parameter `json:"parameters,omitempty"`
	// Body is the encoding of parameters in the body: json (default), form or multipart.
	Body string `json:"body,omitempty"`
	// Headers are sent with every request. They are not secret.
	Headers map[string]string `json:"headers,omitempty"`
	// InputSchema replaces the schema that is made from the parameters.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// OutputSchema is the schema of a JSON answer. Default: none.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// Parameter says where an argument of an [Endpoint] goes and which values it takes.
type Parameter struct {
	// In is path, query, header, cookie or body. Default: path if the path has its name, otherwise query for GET, HEAD and
	// DELETE, and body for other methods.
	In string `json:"in,omitempty"`
	// Name is the parameter's name in the API. Default: the argument's name.
	Name        string `json:"name,omitempty"`
	Type        string `json:"type,omitempty"` // of JSON Schema; default string
	Description string `json:"description,omitempty"`
	// Required defaults to true for path parameters and to false for others.
	Required *bool `json:"required,omitempty"`
	// Schema replaces Type and Description.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// The types of [APIAuth].
const (
	APIBearer = "bearer"  // Authorization: Bearer SECRET (RFC 6750)
	APIBasic  = "basic"   // Authorization: Basic, with Username and SECRET (RFC 7617)
	APIKey    = "api_key" // SECRET in the header, query parameter or cookie Name
)

// APIAuth is how requests to an HTTP API authenticate, without the secret.
type APIAuth struct {
	Type     string `json:"type"`
	In       string `json:"in,omitempty"`       // api_key: header, query or cookie
	Name     string `json:"name,omitempty"`     // api_key
	Username string `json:"username,omitempty"` // basic
}
