package openapi_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

//go:embed testdata/pets.json
var pets string

// document is an OpenAPI document.
type document string

// List lists the document's tools for a skill.
func (d document) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	made, err := openapi.Define(ctx, []byte(d), &server, openapi.Limits{})
	if err != nil {
		return tool.Listing{}, err
	}
	return tool.Listing{Tools: made.Tools, Skipped: made.Skipped}, nil
}

// openDocument returns a document, and a skill that uses it.
func openDocument(_ testing.TB, text string) (document, tool.Server) {
	origins, _ := openapi.CheckDocument([]byte(text)) // List returns the error
	return document(text), tool.Server{
		Skill: "pets", Transport: tool.OpenAPI, URL: "https://pets.example/v1", API: &tool.API{Document: "digest", Origins: origins},
	}
}

// readBinding returns the binding of a definition.
func readBinding(t *testing.T, d tool.Definition) openapi.Binding {
	t.Helper()
	var members struct {
		Binding openapi.Binding `json:"x-holdpoint-http"`
	}
	if err := json.Unmarshal(d.Raw(), &members); err != nil {
		t.Fatal(err)
	}
	return members.Binding
}
