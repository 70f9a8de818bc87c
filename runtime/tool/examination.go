package tool

import "encoding/json"

// Examination is what an OpenAPI document offers, for an operator who chooses. All text in it is the document's: hostile.
type Examination struct {
	OpenAPI     string `json:"openapi"` // its version of OpenAPI, "3.1.0"
	Title       string `json:"title"`
	Version     string `json:"version,omitempty"` // of the API
	Description string `json:"description,omitempty"`
	// BaseURL is where requests would go if the operator set none. Empty: one has to be set, and BaseURLReason says why.
	BaseURL       string `json:"base_url,omitempty"`
	BaseURLReason string `json:"base_url_reason,omitempty"`
	// Servers are the URLs that the document names, variables by their defaults.
	Servers         []string         `json:"servers"`
	SecuritySchemes []SecurityScheme `json:"security_schemes"`
	// Operations are all of the document, in its order.
	Operations []Operation `json:"operations"`
}

// Operation is one operation of an OpenAPI document.
type Operation struct {
	Name         string          `json:"name"` // that its tool would have
	OperationID  string          `json:"operation_id,omitempty"`
	Method       string          `json:"method"`
	Path         string          `json:"path"`
	Tags         []string        `json:"tags,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// NoOutputSchema says why there is no output schema though the document has one.
	NoOutputSchema string `json:"no_output_schema,omitempty"`
	ReadOnly       bool   `json:"read_only"`
	Deprecated     bool   `json:"deprecated,omitempty"`
	// Skipped says why it cannot be a tool; empty: it can.
	Skipped string `json:"skipped,omitempty"`
}

// SecurityScheme is one way to authenticate that an OpenAPI document declares (OpenAPI 3.1, section 4.8.27).
type SecurityScheme struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // apiKey, http, mutualTLS, oauth2 or openIdConnect
	Description string `json:"description,omitempty"`
	In          string `json:"in,omitempty"`        // of apiKey: query, header or cookie
	Parameter   string `json:"parameter,omitempty"` // of apiKey: the name of the query parameter, header or cookie
	Scheme      string `json:"scheme,omitempty"`    // of http: bearer, basic, …
	// OpenIDConnectURL is that of the discovery document (type openIdConnect).
	OpenIDConnectURL string      `json:"open_id_connect_url,omitempty"`
	Flows            []OAuthFlow `json:"flows,omitempty"` // of oauth2
}

// OAuthFlow is one flow of a [SecurityScheme].
type OAuthFlow struct {
	Type             string   `json:"type"` // implicit, password, clientCredentials or authorizationCode
	AuthorizationURL string   `json:"authorization_url,omitempty"`
	TokenURL         string   `json:"token_url,omitempty"`
	Scopes           []string `json:"scopes,omitempty"`
}

// Auth is the [APIAuth] that a scheme stands for, without what only the operator knows. Nil: it is none of those.
func (s SecurityScheme) Auth() *APIAuth {
	switch {
	case s.Type == "apiKey":
		return &APIAuth{Type: APIKey, In: s.In, Name: s.Parameter}
	case s.Type == "http" && s.Scheme == "bearer":
		return &APIAuth{Type: APIBearer}
	case s.Type == "http" && s.Scheme == "basic":
		return &APIAuth{Type: APIBasic}
	}
	return nil
}
