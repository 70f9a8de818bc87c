package cli_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const shopDocument = `{"openapi":"3.0.3","info":{"title":"Shop\u202e","version":"1.2"},"servers":[{"url":"https://shop.example/v1"}],
"components":{"securitySchemes":{"token":{"type":"http","scheme":"bearer"},"key":{"type":"apiKey","in":"header","name":"X-Key"},
	"login":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://as.example/token","scopes":{"orders":"x"}}}}}},
"paths":{
	"/orders":{"get":{"operationId":"listOrders","tags":["orders"],"summary":"List\norders # all"},"post":{"tags":["orders"],"deprecated":true}},
	"/orders/{id}":{"get":{"operationId":"yes","tags":["orders"],"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}]}},
	"/broken/{id}":{"get":{"operationId":"broken","tags":["other"],"parameters":[{"$ref":"https://elsewhere.example/p.json"}]}},
	"/stock":{"get":{"operationId":"stock: \"all\"","tags":["other"]}}}}`

// applied is the one skill of a file, as apply would send it.
func applied(t *testing.T, name, text string) agent.SkillSpec {
	t.Helper()
	read, err := manifest.Parse(name, []byte(text), manifest.Options{Getenv: func(string) string { return "t0p" }})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var spec agent.Spec
	if err := json.Unmarshal(read.Spec, &spec); err != nil || len(spec.Skills) != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	return spec.Skills[0]
}

func TestSkillImport(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "shop.json", shopDocument)
	text := run(t, nil, "", "skill", "import", file, "--name", "my-shop").wantCode(t, 0).stdout
	skill := applied(t, "holdpoint.yaml", text)
	if skill.Name != "my-shop" || skill.Document != shopDocument || skill.BaseURL != "https://shop.example/v1" || skill.Transport != "openapi" {
		t.Errorf("%+v", skill)
	}
	include, _ := json.Marshal(skill.Include)
	if want := `[{"operation_id":"listOrders"},{"method":"POST","path":"/orders"},{"operation_id":"yes"},{"operation_id":"stock: \"all\""}]`; string(include) != want {
		t.Errorf("got  %s\nwant %s", include, want)
	}
	if skill.Auth == nil || *skill.Auth != (agent.APIAuthSpec{Type: "bearer", Secret: "t0p"}) {
		t.Errorf("%+v", skill.Auth)
	}
	wantContains(t, "yaml", text, "secret_env: MY_SHOP_TOKEN", "# GET /orders List", "# POST /orders (deprecated)", "GET /broken/{id}: ", "Also declared: login, oauth2; clientCredentials https://as.example/token")
	if strings.Contains(text, "\u202e") {
		t.Error("a hidden character is in the file")
	}
}

func TestSkillImportFilters(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(shopDocument)) }))
	defer server.Close()
	folder := t.TempDir()
	out := filepath.Join(folder, "holdpoint.yaml")
	told := run(t, nil, "", "skill", "import", server.URL+"/openapi.json", "--name", "shop", "--base-url", "http://10.0.0.1/v2", "--include", "tag=orders", "--exclude", "yes", "-o", out).wantCode(t, 0)
	wantContains(t, "told", told.stderr, "2 of 5 operations")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	skill := applied(t, out, string(text))
	if skill.Spec != server.URL+"/openapi.json" || skill.BaseURL != "http://10.0.0.1/v2" || len(skill.Include) != 1 || skill.Include[0].Tag != "orders" || skill.Exclude[0].OperationID != "yes" {
		t.Errorf("%+v", skill.APISpec)
	}
	wantContains(t, "yaml", string(text), "listOrders: GET /orders", "leave out: 2")

	file := filepath.Join(folder, "shop.json")
	if err := os.WriteFile(file, []byte(shopDocument), 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(folder, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, file)
	if err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(below, "holdpoint.yaml")
	run(t, nil, "", "skill", "import", relative, "--name", "shop", "-o", out).wantCode(t, 0)
	if text, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	if skill := applied(t, out, string(text)); skill.Document != shopDocument || !strings.Contains(string(text), `"../shop.json"`) {
		t.Errorf("%s", text)
	}
}

func TestSkillImportRefuses(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "shop.json", shopDocument)
	bare := writeFile(t, "bare.json", `{"openapi":"3.1.0","paths":{"/a":{"get":{}}}}`)
	swagger := writeFile(t, "swagger.json", `{"swagger":"2.0"}`)
	for args, want := range map[string]string{
		file: "--name", file + " --name s --include tag=none": "no operation", bare + " --name s": "--base-url", swagger + " --name s": "swagger",
		"/nowhere/at/all.json --name s": "no such file", "http://169.254.169.254/o.json --name s": "169.254.169.254",
		"/nowhere/at/all.json --name Shop": "--name must be 1 to 63 of a-z", file + " --name a__b": "--name must be", file + " --name -o": "--name must be",
	} {
		wantContains(t, args, run(t, nil, "", append([]string{"skill", "import"}, strings.Fields(args)...)...).wantCode(t, 1).stderr, want)
	}
	out := filepath.Join(t.TempDir(), "holdpoint.yaml")
	wantContains(t, "a name of two words", run(t, nil, "", "skill", "import", file, "--name", "No Name", "-o", out).wantCode(t, 1).stderr, "--name must be")
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is written: %v", err)
	}
}
