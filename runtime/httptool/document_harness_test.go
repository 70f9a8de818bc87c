package httptool_test

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

//go:embed openapi/testdata/pets.json
var pets string

// openDocument returns a source with one document, and a skill that uses it.
func openDocument(t *testing.T, document string) (*httptool.Source, tool.Server) {
	t.Helper()
	sum := sha256.Sum256([]byte(document))
	digest := hex.EncodeToString(sum[:])
	source := httptool.New(httptool.Config{Limits: httptool.Limits{List: 10 * time.Minute}, Document: func(_ context.Context, wanted string) ([]byte, error) {
		if wanted != digest {
			return nil, fmt.Errorf("no document %s", wanted)
		}
		return []byte(document), nil
	}})
	t.Cleanup(source.Close)
	origins, _ := openapi.CheckDocument([]byte(document)) // List returns the error
	return source, tool.Server{Skill: "pets", Transport: tool.OpenAPI, URL: "https://pets.example/v1", API: &tool.API{Document: digest, Origins: origins}}
}

// defineOne returns the tool binding of a document with one operation.
func defineOne(t *testing.T, operation string) openapi.Binding {
	t.Helper()
	source, server := openDocument(t, `{"openapi": "3.1.0", "paths": {"/it/{id}": {
		"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}], `+operation+`}}}`)
	b, err := openapi.ReadBinding(&mustList(t, source, server).Tools[0])
	if err != nil {
		t.Fatal(err)
	}
	return *b
}
