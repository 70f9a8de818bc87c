package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A skill over an HTTP API is shown without its secret. Its document, which may be large, has an operation of its own.
func TestSkillOfAnAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	document := `{"openapi":"3.1.0","info":{"title":"pets","version":"1"},"paths":{},"x-padding":"` + strings.Repeat("x", 3<<20) + `"}`
	body, err := json.Marshal(map[string]any{
		"name": "pets", "transport": "openapi", "base_url": "https://pets.example/v1", "document": document,
		"include": []any{map[string]any{"tag": "pets"}}, "preview": true, "output_schemas": false,
		"auth":  map[string]any{"type": "api_key", "in": "query", "name": "key", "secret": "sk-geheim"},
		"tools": map[string]any{"listPets": map[string]any{"select": ".items"}},
	})
	check(t, err)
	made := w.send("POST", "/api/v1/skills", w.operator, string(body))
	if strings.Contains(made.body, "geheim") || strings.Contains(made.body, "xxxxx") {
		t.Error("the secret or the document is shown")
	}
	v := made.wantStatus(t, http.StatusCreated)
	said, err := json.Marshal(map[string]any{
		"url": v["url"], "base_url": v["base_url"], "spec": v["spec"], "include": v["include"], "exclude": v["exclude"], "endpoints": v["endpoints"],
		"auth": v["auth"], "preview": v["preview"], "output_schemas": v["output_schemas"], "tools": v["tools"],
	})
	check(t, err)
	const want = `{"auth":{"in":"query","name":"key","type":"api_key","username":null},"base_url":"https://pets.example/v1","endpoints":[],"exclude":[],` +
		`"include":[{"tag":"pets"}],"output_schemas":false,"preview":true,"spec":null,"tools":{"listPets":{"select":".items"}},"url":null}`
	if string(said) != want {
		t.Errorf("got  %s\nwant %s", said, want)
	}
	if size := fmt.Sprint(v["document"].(map[string]any)["size"]); size != strconv.Itoa(len(document)) {
		t.Errorf("size %s", size)
	}
	if got := w.get("skills/pets/document", w.operator); got.body != document || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d bytes of %s", len(got.body), got.header.Get("Content-Type"))
	}
	w.get("skills/files/document", w.operator).wantProblem(t, http.StatusNotFound, "not_found")
	if v := w.get("skills/files", w.operator).wantStatus(t, 200); v["base_url"] != nil || v["auth"] != nil || v["url"] == nil {
		t.Errorf("of an MCP server: %v", v)
	}
}

func TestTryOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send("POST", "/api/v1/skills/files/try", w.operator, `{"tool":"nothing"}`).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	v := w.send("POST", "/api/v1/skills/files/try", w.operator, `{"tool":"write","arguments":{}}`).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	if text := fmt.Sprint(v["detail"]); !strings.Contains(text, "GET or HEAD") {
		t.Errorf("%v", v)
	}
	w.send("POST", "/api/v1/skill-drafts/try", w.operator, `{"tool":"x","skill":{"name":"x","transport":"http","url":"http://h/"}}`).
		wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	w.send("POST", "/api/v1/skill-drafts/try", w.operator, `{"tool":"x","skill":{"name":"x","transport":"http-api","base_url":"http://h/","endpoints":[{"name":"x","path":"/"}]}}`).
		wantProblem(t, http.StatusUnprocessableEntity, "not_available")
}

// An error of a draft has the location of the field in the request.
func TestTryDraftLocatesProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct{ skill, want string }{
		{`{"name":"No Name","transport":"http-api","base_url":"http://h/","endpoints":[{"name":"x","path":"/"}]}`, "[body.skill.name]"},
		{`{"name":"x","transport":"http-api","base_url":"nowhere","endpoints":[{"name":"x","path":"/"}]}`, "[body.skill.base_url]"},
		{`{"name":"x","transport":"openapi","base_url":"http://h/"}`, "[body.skill.spec]"},
		{`{"name":"x","transport":"http","url":"http://h/"}`, "[body.skill.transport]"},
	} {
		v := w.send("POST", "/api/v1/skill-drafts/try", w.operator, `{"tool":"x","skill":`+tt.skill+`}`).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
		var located []string
		for _, one := range v["errors"].([]any) {
			located = append(located, fmt.Sprint(one.(map[string]any)["location"]))
		}
		if fmt.Sprint(located) != tt.want || !strings.Contains(fmt.Sprint(v["detail"]), strings.Trim(tt.want, "[]")[len("body."):]) {
			t.Errorf("%s: located at %v, want %s: %v", tt.skill, located, tt.want, v["detail"])
		}
	}
}

func TestExamine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const document = `{"openapi":"3.1.0","info":{"title":"Pets","version":"1"},"servers":[{"url":"https://pets.example/v1"}],
		"paths":{"/pets/{id}":{"get":{"operationId":"getPet","tags":["pets"],"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}]},
			"delete":{"requestBody":{"content":{"application/pdf; x=\u0000":{}},"required":true}}}}}`
	body, err := json.Marshal(map[string]string{"document": document})
	check(t, err)
	v := w.send("POST", "/api/v1/skill-drafts/examine", w.operator, string(body)).wantStatus(t, 200)
	first := v["operations"].([]any)[0].(map[string]any)
	if v["title"] != "Pets" || v["base_url"] != "https://pets.example/v1" || first["operation_id"] != "getPet" || first["read_only"] != true || first["input_schema"] == nil {
		t.Errorf("%v", v)
	}
	for body, location := range map[string]string{
		`{}`: "body.spec", `{"document":"{}"}`: "body.document", `{"spec":"ftp://h/"}`: "body.spec", `{"spec":"http://h/","document":"{}"}`: "body.document",
		`{"spec":"http://169.254.169.254/openapi.json"}`: "body.spec",
	} {
		p := w.send("POST", "/api/v1/skill-drafts/examine", w.operator, body).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
		if errs, _ := json.Marshal(p["errors"]); !strings.Contains(string(errs), `"location":"`+location+`"`) {
			t.Errorf("%s: %v", body, p)
		}
	}
}
