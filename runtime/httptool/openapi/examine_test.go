package openapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	const document = `
openapi: 3.1.0
info: {title: Pets, version: 1.2.0, description: All of them.}
servers:
  - url: https://{region}.pets.example/{version}/
    variables: {region: {default: eu}, version: {default: v1}}
  - url: /v2
paths:
  /pets:
    get: {operationId: listPets, tags: [pets], summary: All pets, responses: {200: {description: them, content: {application/json: {schema: {type: array}}}}}}
    post: {operationId: makePet, deprecated: true, requestBody: {$ref: 'https://elsewhere.example/pet.yaml'}}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
    token: {type: http, scheme: Bearer}
    people:
      type: oauth2
      flows: {clientCredentials: {tokenUrl: https://pets.example/token, scopes: {pets.read: Read}}}
`
	got, err := openapi.Examine(t.Context(), []byte(document), "https://eu.pets.example/openapi.yaml", openapi.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := setting.Examination{
		OpenAPI: "3.1.0", Title: "Pets", Version: "1.2.0", Description: "All of them.",
		BaseURL: "https://eu.pets.example/v1", Servers: []string{"https://eu.pets.example/v1", "https://eu.pets.example/v2"},
		SecuritySchemes: []setting.SecurityScheme{
			{Name: "key", Type: "apiKey", In: "header", Parameter: "X-Key"},
			{Name: "token", Type: "http", Scheme: "bearer"},
			{Name: "people", Type: "oauth2", Flows: []setting.OAuthFlow{{Type: "clientCredentials", TokenURL: "https://pets.example/token", Scopes: []string{"pets.read"}}}},
		},
		Operations: []setting.Operation{
			{
				Name: "listPets", OperationID: "listPets", Method: "GET", Path: "/pets", Tags: []string{"pets"}, Summary: "All pets", ReadOnly: true,
				InputSchema:  []byte(`{"type":"object","properties":{},"additionalProperties":false}`),
				OutputSchema: []byte(`{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`),
			},
			{
				Name: "makePet", OperationID: "makePet", Method: "POST", Path: "/pets", Deprecated: true,
				Skipped: `requestBody: reference "https://elsewhere.example/pet.yaml": only references within the document (#/…) are followed`,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if auth := got.SecuritySchemes[0].Auth(); *auth != (tool.APIAuth{Type: tool.APIKey, In: "header", Name: "X-Key"}) {
		t.Errorf("%+v", auth)
	}
	byValue, err := openapi.Examine(t.Context(), []byte(`{"openapi": "3.0.0", "servers": [{"url": "/v1"}]}`), "", openapi.Limits{})
	const want2 = "server /v1: must be an absolute URL: set base_url"
	if err != nil || byValue.BaseURL != "" || byValue.BaseURLReason != want2 {
		t.Errorf("%+v, %v", byValue, err)
	}
}
