package setting

import (
	"encoding/json"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Examination summarizes an OpenAPI document for an operator who chooses settings. All text comes from the document and is hostile.
type Examination struct {
	OpenAPI     string `json:"openapi"` // version of OpenAPI, "3.1.0"
	Title       string `json:"title"`
	Version     string `json:"version,omitempty"` // of the API
	Description string `json:"description,omitempty"`
	// BaseURL receives the requests if the operator sets none. Empty: the operator has to set one, and BaseURLReason says why.
	BaseURL       string `json:"base_url,omitempty"`
	BaseURLReason string `json:"base_url_reason,omitempty"`
	// Servers are the URLs that the document names, with the defaults of their variables.
	Servers         []string         `json:"servers"`
	SecuritySchemes []SecurityScheme `json:"security_schemes"`
	// Operations are all operations of the document, in its order.
	Operations []Operation `json:"operations"`
}

// Operation is one operation of an OpenAPI document.
type Operation struct {
	Name         string          `json:"name"` // of the tool
	OperationID  string          `json:"operation_id,omitempty"`
	Method       string          `json:"method"`
	Path         string          `json:"path"`
	Tags         []string        `json:"tags,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// NoOutputSchema says why the tool has no output schema although the document has one.
	NoOutputSchema string `json:"no_output_schema,omitempty"`
	ReadOnly       bool   `json:"read_only"`
	Deprecated     bool   `json:"deprecated,omitempty"`
	// Skipped says why the operation cannot be a tool. Empty: it can.
	Skipped string `json:"skipped,omitempty"`
}

// SecurityScheme is a security scheme that an OpenAPI document declares (OpenAPI 3.1, section 4.8.27).
type SecurityScheme struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // apiKey, http, mutualTLS, oauth2 or openIdConnect
	Description string `json:"description,omitempty"`
	In          string `json:"in,omitempty"`        // apiKey: query, header or cookie
	Parameter   string `json:"parameter,omitempty"` // apiKey: the name of the query parameter, header or cookie
	Scheme      string `json:"scheme,omitempty"`    // http: bearer, basic, …
	// OpenIDConnectURL is the URL of the discovery document (type openIdConnect).
	OpenIDConnectURL string      `json:"open_id_connect_url,omitempty"`
	Flows            []OAuthFlow `json:"flows,omitempty"` // oauth2
}

// OAuthFlow is one OAuth flow of a [SecurityScheme].
type OAuthFlow struct {
	Type             string   `json:"type"` // implicit, password, clientCredentials or authorizationCode
	AuthorizationURL string   `json:"authorization_url,omitempty"`
	TokenURL         string   `json:"token_url,omitempty"`
	Scopes           []string `json:"scopes,omitempty"`
}

// Auth returns the setting for a scheme, without the secret and the user name. Nil: no setting supports the scheme.
func (s SecurityScheme) Auth() *tool.APIAuth {
	switch {
	case s.Type == "apiKey":
		return &tool.APIAuth{Type: tool.APIKey, In: s.In, Name: s.Parameter}
	case s.Type == "http" && s.Scheme == "bearer":
		return &tool.APIAuth{Type: tool.APIBearer}
	case s.Type == "http" && s.Scheme == "basic":
		return &tool.APIAuth{Type: tool.APIBasic}
	}
	return nil
}

// FilterOf returns a filter that selects one operation of the document and no other.
func (e *Examination) FilterOf(o *Operation) tool.OperationFilter {
	same := 0
	for i := range e.Operations {
		if e.Operations[i].OperationID == o.OperationID {
			same++
		}
	}
	if o.OperationID != "" && same == 1 && len(o.OperationID) <= maxPattern/2 {
		return tool.OperationFilter{OperationID: EscapePattern(o.OperationID)}
	}
	return tool.OperationFilter{Method: o.Method, Path: EscapePattern(o.Path)}
}
