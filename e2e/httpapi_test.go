package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

// postsAPI describes the resource posts of a json-server.
const postsAPI = `openapi: 3.1.0
info: {title: Posts, version: "1"}
servers: [{url: "http://127.0.0.1:1/not-used"}]
paths:
  /posts:
    get:
      operationId: listPosts
      summary: List posts
      tags: [reading]
      parameters:
        - {name: _limit, in: query, schema: {type: integer, minimum: 1}}
        - {name: title, in: query, schema: {type: array, items: {type: string}}}
      responses:
        "200": {description: ok, content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Post"}}}}}
    post:
      operationId: createPost
      summary: Create a post
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Post"}}}}
      responses:
        "201": {description: ok, content: {application/json: {schema: {$ref: "#/components/schemas/Post"}}}}
  /posts/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: getPost
      tags: [reading]
      responses:
        "200": {description: ok, content: {application/json: {schema: {$ref: "#/components/schemas/Post"}}}}
    patch:
      operationId: updatePost
      summary: Change a post
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {title: {type: string}, views: {type: integer}}}}}}
      responses:
        "200": {description: ok, content: {application/json: {schema: {$ref: "#/components/schemas/Post"}}}}
    delete:
      operationId: deletePost
      summary: Delete a post
      responses: {"200": {description: gone}}
components:
  schemas:
    Post:
      type: object
      properties:
        id: {type: integer}
        title: {type: string}
        views: {type: integer}
      required: [title]
`

const postsData = `{
	"posts": [{"id": 1, "title": "a first", "views": 9007199254740991}, {"id": 2, "title": "a & b", "views": 2}],
	"weather": [{"id": "London", "current_condition": [{"temp_C": "12", "temp_F": "54", "weatherDesc": [{"value": "Partly cloudy"}], "humidity": "72", "windspeedKmph": "15"}]}],
	"customers": []
}`

// jsonServer runs a json-server with data.
func jsonServer(t *testing.T) (url string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "db.json")
	if err := os.WriteFile(data, []byte(postsData), 0o600); err != nil {
		t.Fatal(err)
	}
	port := holdpoint.FreePort(t)
	cmd := exec.Command(findNode(t), npmPackage(t, "json-server/lib/cli/bin.js"), "--host", "127.0.0.1", "--port", strconv.Itoa(port), data)
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	startListener(t, "json-server", cmd, url+"/posts")
	return url
}

// apiWorld is a server whose agent "worker" has the operations of a json-server. Reading operations are auto-approved.
type apiWorld struct {
	*world
	p      *holdpoint.Process
	url    string // URL of the json-server
	worker holdpoint.Agent
	writer holdpoint.Agent // has a short hold time
}

func newAPIWorld(t *testing.T) *apiWorld {
	t.Helper()
	w := &apiWorld{world: newWorld(t), url: jsonServer(t)}
	w.p = w.startServer()
	dir := t.TempDir()
	for name, content := range map[string]string{"posts.yaml": postsAPI, "holdpoint.yaml": fmt.Sprintf(`skills:
  - name: reader
    transport: openapi
    spec: posts.yaml
    base_url: %[1]s
    include: [{tag: reading}]
    auto_approve: true
    tools:
      listPosts: {idempotent: true}
  - name: writer
    transport: openapi
    spec: posts.yaml
    base_url: %[1]s
    exclude: [{tag: reading}]
    preview: true
  - name: seeds
    transport: http-api
    base_url: %[1]s
    auto_approve: true
    endpoints:
      - {name: get_weather, description: The weather in a city., path: "/weather/{city}"}
      - name: create_customer
        method: POST
        path: /customers
        parameters: {email: {required: true}, name: {}}
agents:
  - name: worker
    wait_budget: 20s
    skills: [reader, {skill: seeds, prefix: ""}]
  - name: writer
    wait_budget: 2s
    skills: [writer]
`, w.url)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newCLI(w.p, bootstrapToken).Must(t, "apply", "-f", filepath.Join(dir, "holdpoint.yaml"))
	w.worker, w.writer = w.newAgent(w.p, "worker"), w.newAgent(w.p, "writer")
	return w
}

// outgoing is the request in an approval.
type outgoing struct {
	Risk    string `json:"risk"`
	Request struct {
		Method string `json:"method"`
		URL    string `json:"url"`
		Text   string `json:"text"`
	} `json:"request"`
}

// parkCall makes a gated call and returns its approval.
func (w *apiWorld) parkCall(t *testing.T, name, arguments string) (id string, shown outgoing) {
	t.Helper()
	answer, err := w.writer.CallTool(t.Context(), name, arguments)
	if err != nil || !answer.Pending() {
		t.Fatalf("%s: %s, %v, want it parked", name, answer.Raw, err)
	}
	id = answer.Call().ID
	if err := operatorAPI(w.p).Do(t.Context(), http.MethodGet, "approvals/"+id, nil, &shown); err != nil {
		t.Fatal(err)
	}
	return id, shown
}

func (w *apiWorld) awaitStatus(t *testing.T, id, status string) holdpoint.Call {
	t.Helper()
	return awaitCall(t, operatorAPI(w.p), id, hasStatus(status))
}

// fetchPath reads a path of the json-server.
func (w *apiWorld) fetchPath(t *testing.T, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get(w.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	_, err = io.Copy(&text, response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, text.String()
}

func TestHTTPAPI(t *testing.T) {
	t.Parallel()
	w := newAPIWorld(t)
	t.Run("read", w.testReads)
	t.Run("create", w.testCreates)
	t.Run("update", w.testUpdates)
	t.Run("delete", w.testDeletes)
	t.Run("errors", w.testFailures)
	t.Run("seeds", w.testSeeds)
}

func (w *apiWorld) testReads(t *testing.T) {
	answer, err := w.worker.CallTool(t.Context(), "reader__listPosts", `{"title":["a & b","none"],"_limit":5}`)
	if err != nil || !strings.Contains(answer.Text(), `"title":"a & b"`) || strings.Contains(answer.Text(), "a first") {
		t.Errorf("list: %s, %v", answer.Raw, err)
	}
	answer, err = w.worker.CallTool(t.Context(), "reader__getPost", `{"id":"1"}`)
	var post struct{ Views json.Number }
	if err != nil || json.Unmarshal(answer.Result.StructuredContent, &post) != nil || post.Views != "9007199254740991" {
		t.Errorf("read: %s, %v", answer.Raw, err)
	}
	if answer, err := w.worker.CallTool(t.Context(), "reader__createPost", `{"title":"x"}`); err == nil && hasSucceeded(answer) {
		t.Errorf("an operation that is not included: %s", answer.Raw)
	}
}

func (w *apiWorld) testCreates(t *testing.T) {
	id, shown := w.parkCall(t, "writer__createPost", `{"title":"made \"here\"","views":12345678901234567}`)
	if shown.Request.Method != http.MethodPost || shown.Request.URL != w.url+"/posts" || shown.Request.Text != `{"title":"made \"here\"","views":12345678901234567}` {
		t.Errorf("the request is %+v", shown.Request)
	}
	if _, body := w.fetchPath(t, "/posts"); strings.Contains(body, "made") {
		t.Fatalf("it was sent before anybody decided: %s", body)
	}
	approveCall(t, w.p, id, func() {})
	done := w.awaitStatus(t, id, "succeeded")
	if _, body := w.fetchPath(t, "/posts"); !strings.Contains(body, `made \"here\"`) {
		t.Errorf("after the approval: %s, the call %s", body, done.Result)
	}
}

func (w *apiWorld) testUpdates(t *testing.T) {
	id, shown := w.parkCall(t, "writer__updatePost", `{"id":"2","title":"another title"}`)
	if shown.Request.Method != http.MethodPatch || shown.Request.URL != w.url+"/posts/2" || shown.Request.Text != `{"title":"another title"}` {
		t.Errorf("the request is %+v", shown.Request)
	}
	preview := newCLI(w.p, bootstrapToken).Must(t, "approvals", "show", id, "--preview")
	if !strings.Contains(preview, "GET "+w.url+"/posts/2 answers HTTP 200") || !strings.Contains(preview, `"a & b"`) {
		t.Errorf("the preview says %s", preview)
	}
	approveCall(t, w.p, id, func() {})
	w.awaitStatus(t, id, "succeeded")
	if _, body := w.fetchPath(t, "/posts/2"); !strings.Contains(body, "another title") || !strings.Contains(body, `"views": 2`) {
		t.Errorf("after the approval: %s", body)
	}
}

// testDeletes: a deletion needs a confirmation.
func (w *apiWorld) testDeletes(t *testing.T) {
	id, shown := w.parkCall(t, "writer__deletePost", `{"id":"1"}`)
	if shown.Request.Method != http.MethodDelete || shown.Risk != "destructive" {
		t.Errorf("shown as %+v", shown)
	}
	approveCall(t, w.p, id, func() {
		if status, _ := w.fetchPath(t, "/posts/1"); status != http.StatusOK {
			t.Fatalf("approved in one go, the post is %d", status)
		}
	})
	w.awaitStatus(t, id, "succeeded")
	if status, _ := w.fetchPath(t, "/posts/1"); status != http.StatusNotFound {
		t.Errorf("the deleted post is %d", status)
	}
}

func (w *apiWorld) testFailures(t *testing.T) {
	answer, err := w.worker.CallTool(t.Context(), "reader__getPost", `{"id":"77"}`)
	if err != nil || !answer.Result.IsError || !strings.HasPrefix(answer.Text(), "Upstream API returned 404: ") || answer.Call().Effect == "possible" {
		t.Errorf("nothing there: %s, %v", answer.Raw, err)
	}
	for _, id := range []string{`".."`, `"."`, `""`} {
		answer, err := w.worker.CallTool(t.Context(), "reader__getPost", `{"id":`+id+`}`)
		if err == nil && hasSucceeded(answer) {
			t.Errorf("id %s: %s", id, answer.Raw)
		}
	}
	// A json-server fails on a duplicate id.
	id, _ := w.parkCall(t, "writer__createPost", `{"id":2,"title":"twice"}`)
	approveCall(t, w.p, id, func() {})
	done := w.awaitStatus(t, id, "failed")
	if done.Failure != "tool_error" || done.Effect != "possible" || !strings.Contains(string(done.Result), "Upstream API returned 500: ") {
		t.Errorf("%s, effect %s: %s", done.Failure, done.Effect, done.Result)
	}
}

// testSeeds: a reading tool, a writing tool, a tool error and an unknown method behave as MCP clients expect.
func (w *apiWorld) testSeeds(t *testing.T) {
	answer, err := w.worker.CallTool(t.Context(), "get_weather", `{"city":"London"}`)
	var first struct{ Type, Text string }
	if err != nil || len(answer.Result.Content) != 1 || json.Unmarshal(answer.Result.Content[0], &first) != nil || first.Type != "text" ||
		!strings.Contains(first.Text, `"current_condition":[{"temp_C":"12","temp_F":"54","weatherDesc":[{"value":"Partly cloudy"}],"humidity":"72","windspeedKmph":"15"}]`) {
		t.Errorf("a tool that reads: %s, %v", answer.Raw, err)
	}
	answer, err = w.worker.CallTool(t.Context(), "create_customer", `{"email":"jane@example.com","name":"Jane Smith"}`)
	var made struct {
		ID          int
		Email, Name string
	}
	if err != nil || json.Unmarshal([]byte(answer.Text()), &made) != nil || made.ID == 0 || made.Email != "jane@example.com" || made.Name != "Jane Smith" {
		t.Errorf("a tool that writes: %s, %v", answer.Raw, err)
	}
	answer, err = w.worker.CallTool(t.Context(), "get_weather", `{"city":"Atlantis"}`)
	if err != nil || !answer.Result.IsError || !strings.HasPrefix(answer.Text(), "Upstream API returned 404") {
		t.Errorf("an error of a tool: %s, %v", answer.Raw, err)
	}
	if answer, err = w.worker.CallTool(t.Context(), "create_customer", `{"name":"nobody"}`); err == nil && hasSucceeded(answer) {
		t.Errorf("a required argument is missing: %s", answer.Raw)
	}
	answer, err = w.worker.Request(t.Context(), "tools/nothing", `{}`)
	if err != nil || answer.Error == nil || answer.Error.Code != -32601 {
		t.Errorf("an unknown method: %s, %+v, %v", answer.Raw, answer.Error, err)
	}
}
