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
	OperationID string `json:"operation_id,omitempty" doc:"The operationId; * stands for any characters."`                            // a pattern
	Tag         string `json:"tag,omitempty" doc:"A tag; * stands for any characters."`                                               // a pattern
	Method      string `json:"method,omitempty" doc:"The method, such as GET."`                                                       // "GET"; case does not matter
	Path        string `json:"path,omitempty" doc:"The path as the document writes it; * stands for a part of it, ** for any parts."` // a pattern of the path as the document writes it: "/repos/{owner}/**"
}

// Endpoint is an endpoint of an HTTP API that an operator wrote by hand.
type Endpoint struct {
	Name        string `json:"name" manifest:"required" doc:"The name of the tool."`
	Title       string `json:"title,omitempty" doc:"The title of the tool."`
	Description string `json:"description,omitempty" doc:"What the tool does, for the model."`
	Method      string `json:"method,omitempty" otherwise:"GET" doc:"The method of the request."` // default GET
	// Path is appended to the base URL. {name} stands for a parameter: "/customers/{id}".
	Path string `json:"path" manifest:"required" doc:"What is appended to the base URL. {name} stands for a parameter."`
	// Parameters by argument name. Parameters of the path may be left out.
	Parameters map[string]Parameter `json:"parameters,omitempty" doc:"The arguments of the tool, by name. Those of the path may be left out."`
	// Body is the encoding of parameters in the body: json (default), form or multipart.
	Body string `json:"body,omitempty" values:"json|form|multipart" otherwise:"json" doc:"How the parameters of the body are encoded."`
	// Headers are sent with every request. They are not secret.
	Headers map[string]string `json:"headers,omitempty" doc:"Headers of every request. They are not secret."`
	// InputSchema replaces the schema that is made from the parameters.
	InputSchema json.RawMessage `json:"input_schema,omitempty" otherwise:"made from the parameters" doc:"The JSON Schema of the arguments."`
	// OutputSchema is the schema of a JSON answer. Default: none.
	OutputSchema json.RawMessage `json:"output_schema,omitempty" otherwise:"none" doc:"The JSON Schema of a JSON response."`
}

// Parameter says where an argument of an [Endpoint] goes and which values it takes.
type Parameter struct {
	// In is path, query, header, cookie or body. Default: path if the path has its name, otherwise query for GET, HEAD and
	// DELETE, and body for other methods.
	In string `json:"in,omitempty" values:"path|query|header|cookie|body" otherwise:"path if the path has its name, otherwise query for GET, HEAD and DELETE, and body for others" doc:"Where the argument goes."`
	// Name is the parameter's name in the API. Default: the argument's name.
	Name        string `json:"name,omitempty" otherwise:"the argument's name" doc:"The parameter's name in the API."`
	Type        string `json:"type,omitempty" otherwise:"string" doc:"The type of the value, as in JSON Schema."` // of JSON Schema; default string
	Description string `json:"description,omitempty" doc:"What the argument is, for the model."`
	// Required defaults to true for path parameters and to false for others.
	Required *bool `json:"required,omitempty" otherwise:"true in the path, otherwise false" doc:"Whether the argument must be given."`
	// Schema replaces Type and Description.
	Schema json.RawMessage `json:"schema,omitempty" doc:"The JSON Schema of the value, in place of type and description."`
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
