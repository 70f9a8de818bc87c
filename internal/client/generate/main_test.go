package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The committed client matches the committed document.
func TestClientIsCurrent(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := generate(document)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../api_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, committed) {
		t.Error("api_gen.go is not what docs/openapi.json makes: run go generate ./internal/client")
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	text, err := generate([]byte(`{"paths": {"/api/v1/pets/{name}/toys/{number}": {"patch": {"operationId": "updateToy", "summary": "Change a toy",
		"parameters": [{"name": "number", "in": "path", "schema": {"type": "integer"}}, {"name": "dry", "in": "query", "schema": {"type": "boolean"}}],
		"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ToyPatch"}}}},
		"responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ListToy"}}}}, "default": {}}}}},
		"components": {"schemas": {
			"ToyPatch": {"type": "object", "properties": {"base_url": {"type": "string"}, "made": {"type": ["string", "null"], "format": "date-time"}, "tags": {"type": "array", "items": {"type": "string"}}}},
			"ListToy": {"type": "object", "properties": {"items": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Toy"}}}},
			"Toy": {"type": "object", "required": ["id", "owner", "data"], "properties": {"id": {"type": "string"}, "owner": {"$ref": "#/components/schemas/Toy"}, "data": {}, "size": {"type": "integer"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Join(strings.Fields(string(text)), " ")
	for _, want := range []string{
		`{"PATCH", "/api/v1/pets/{name}/toys/{number}", "Change a toy"}`,
		"UpdateToy(ctx context.Context, name string, number int64, query UpdateToyQuery, body ToyPatch) (Reply[List[Toy]], error)",
		`"/api/v1/pets/"+Segment(name)+"/toys/"+strconv.FormatInt(number, 10), q, body)`,
		"BaseURL *string `json:\"base_url,omitzero\"` Made *time.Time `json:\"made,omitzero\"` Tags []string `json:\"tags,omitzero\"`",
		"Data json.RawMessage `json:\"data\"` ID string `json:\"id\"` Owner *Toy `json:\"owner\"` Size int64 `json:\"size,omitzero\"`",
	} {
		if !strings.Contains(source, want) {
			t.Errorf("the client does not have %s:\n%s", want, text)
		}
	}
	if _, err := generate([]byte(`{"components": {"schemas": {"Odd": {"properties": {"x": {"type": "enum"}}}}}}`)); err == nil || !strings.Contains(err.Error(), "Odd.x") {
		t.Errorf("error %v", err)
	}
}
