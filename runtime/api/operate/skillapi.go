package operate

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// SkillAPI has the fields of skills over an HTTP API (openapi, http-api).
type SkillAPI struct {
	BaseURL       *string                `json:"base_url" doc:"With openapi and http-api: the URL of the API. Null with openapi: the first server in the document."`
	Spec          *string                `json:"spec" doc:"With openapi: the URL of the document."`
	Document      *Document              `json:"document" doc:"With openapi: the document, if it was given itself."`
	Include       []tool.OperationFilter `json:"include" nullable:"false" doc:"Operations of the document; none: all of them."`
	Exclude       []tool.OperationFilter `json:"exclude" nullable:"false" doc:"Operations that are excluded."`
	Endpoints     []tool.Endpoint        `json:"endpoints" nullable:"false" doc:"With http-api: its endpoints."`
	Auth          *Auth                  `json:"auth" doc:"How requests to the API are authenticated, without the secret."`
	Preview       bool                   `json:"preview" doc:"Whether reviewers see the current state of the data that a PUT, PATCH or DELETE would change."`
	OutputSchemas bool                   `json:"output_schemas" doc:"Whether responses must match the document's response schemas."`
}

// Document is an OpenAPI document, without its content.
type Document struct {
	_      struct{} `nullable:"true"`
	Digest string   `json:"digest" doc:"SHA-256, in hex."`
	Size   int      `json:"size" doc:"In bytes."`
}

// Auth is how requests to an HTTP API are authenticated.
type Auth struct {
	_        struct{} `nullable:"true"`
	Type     string   `json:"type" enum:"bearer,basic,api_key"`
	In       *string  `json:"in" enum:"header,query,cookie" doc:"Of api_key."`
	Name     *string  `json:"name" doc:"With api_key: the name of the header, query parameter or cookie."`
	Username *string  `json:"username" doc:"With basic: the username."`
}

func newSkillAPI(s *agent.Skill) SkillAPI {
	view := SkillAPI{Include: []tool.OperationFilter{}, Exclude: []tool.OperationFilter{}, Endpoints: []tool.Endpoint{}}
	if !s.Transport.IsAPI() {
		return view
	}
	view.BaseURL, view.OutputSchemas = rest.OrNull(s.URL), true
	api := s.API
	if api == nil {
		return view
	}
	view.Spec, view.Preview, view.OutputSchemas = rest.OrNull(api.Spec), api.Preview, !api.NoOutputSchemas
	view.Include, view.Exclude, view.Endpoints = rest.OrEmpty(api.Include), rest.OrEmpty(api.Exclude), rest.OrEmpty(api.Endpoints)
	if api.Document != "" {
		view.Document = &Document{Digest: api.Document, Size: s.DocumentSize}
	}
	if auth := api.Auth; auth != nil {
		view.Auth = &Auth{Type: auth.Type, In: rest.OrNull(auth.In), Name: rest.OrNull(auth.Name), Username: rest.OrNull(auth.Username)}
	}
	return view
}

// getDocument answers with the document byte for byte.
func (h *skillHandlers) getDocument(ctx context.Context, input *rest.ByName) (*huma.StreamResponse, error) {
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	if found.API == nil || found.API.Document == "" {
		return nil, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "the skill %q has no stored document", input.Name)
	}
	document, err := h.Agents.Document(ctx, found.API.Document)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		w.Header().Set("Content-Type", "application/yaml") // RFC 9512
		if text := bytes.TrimLeft(document, " \t\r\n\ufeff"); len(text) > 0 && text[0] == '{' {
			w.Header().Set("Content-Type", "application/json")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(document)))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(document) // the client may be gone
	}}, nil
}
