package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// TestMineIsMine: another agent, or the same agent with a principal, cannot see objects of an agent without one.
// Requests with their IDs get the same responses as requests with unknown IDs.
func TestMineIsMine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, "")+"  - {name: other, wait_budget: 1s, skills: [counting]}\n")
	worker, other := w.newAgent(p, "worker"), w.newAgent(p, "other")
	w.invitePerson(p, "ada", "operator")
	ada := holdpoint.Agent{URL: p.URL, Name: "worker", Key: w.invitePerson(p, "ada", "reviewer", "--agents", "worker")}
	mine := findBelongings(t, p, worker)
	for who, stranger := range map[string]visitor{"another agent": {t, other}, "another principal": {t, ada}} {
		for _, c := range listTouches() {
			if who == "another principal" && c.reviewers {
				continue // ada is a reviewer, who may see pending calls
			}
			id := mine[c.kind]
			none := uuid.NewString()
			if prefix, _, found := strings.Cut(id, "_"); found {
				none = prefix + "_" + strings.ReplaceAll(none, "-", "")[:len(id)-len(prefix)-1]
			}
			got, want := c.touch(stranger, id), c.touch(stranger, none)
			if got = anonymizeAnswer(got, id); got != anonymizeAnswer(want, none) {
				t.Errorf("%s, %s %s: is answered\n%s\nand one that does not exist\n%s", who, c.kind, c.name, got, want)
			}
		}
	}
	own := visitor{t, worker}
	for _, c := range listTouches() { // the owner must get something
		if got := c.touch(own, mine[c.kind]); anonymizeAnswer(got, mine[c.kind]) == anonymizeAnswer(c.touch(own, uuid.NewString()), mine[c.kind]) {
			t.Errorf("%s %s tells its owner nothing either: %s", c.kind, c.name, got)
		}
	}
}

// findBelongings returns the IDs of an agent's objects.
func findBelongings(t *testing.T, p *holdpoint.Process, worker holdpoint.Agent) map[string]string {
	t.Helper()
	own := visitor{t, worker}
	mine := map[string]string{"idempotency key": "hers"}
	answer, err := worker.CallToolWith(t.Context(), "counting__record", `{"n":1}`, `{"dev.holdpoint/idempotency_key":"hers"}`)
	if err != nil || !answer.Pending() {
		t.Fatalf("%s, %v", answer.Raw, err)
	}
	mine["call"], mine["task"], mine["state"] = answer.Call().ID, answer.Call().ID, answer.Call().ID
	_, header, err := holdpoint.Post(t.Context(), p.URL+"/agents/worker/mcp", http.Header{"Authorization": {"Bearer " + worker.Key}},
		"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	if err != nil {
		t.Fatal(err)
	}
	mine["session"], mine["conversation"] = header.Get("Mcp-Session-Id"), header.Get("Mcp-Session-Id")
	var file struct {
		ID        string `json:"file_id"`
		UploadURL string `json:"upload_url"`
	}
	said := own.requestAPI(http.MethodPost, "files/presign-upload", `{"agent":"worker","filename":"a.txt","content_type":"text/plain","size":2}`)
	if _, body, _ := strings.Cut(said, " "); json.Unmarshal([]byte(body), &file) != nil || file.ID == "" {
		t.Fatal(said)
	}
	if got := own.sendRequest(http.MethodPut, file.UploadURL, "hi", map[string]string{"Content-Type": "text/plain"}); !strings.HasPrefix(got, "20") {
		t.Fatal(got)
	}
	mine["file"] = file.ID
	return mine
}

// touch is a request about an id.
type touch struct {
	kind, name string
	touch      func(v visitor, id string) string
	reviewers  bool // reviewers may do it too
}

func listTouches() []touch {
	task := func(method string) func(visitor, string) string {
		return func(v visitor, id string) string {
			return v.requestModern(method, `"taskId":"`+id+`","inputResponses":{}`, id)
		}
	}
	api := func(method, path, body string) func(visitor, string) string {
		return func(v visitor, id string) string { return v.requestAPI(method, fmt.Sprintf(path, id), body) }
	}
	session := func(method, body string) func(visitor, string) string {
		return func(v visitor, id string) string {
			return v.sendRequest(method, v.endpointURL(), body, map[string]string{
				"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25", "Accept": "application/json", "Content-Type": "application/json",
			})
		}
	}
	return []touch{
		{"task", "tasks/get", task("tasks/get"), false},
		{"task", "tasks/update", task("tasks/update"), false},
		{"call", "holdpoint_await", func(v visitor, id string) string {
			return v.requestMCP("tools/call", `"name":"holdpoint_await","arguments":{"call_id":"`+id+`"}`)
		}, false},
		{"call", "GET", api(http.MethodGet, "calls/%s", ""), true},
		{"state", "of a result that asks for input", func(v visitor, id string) string {
			return v.requestModern("tools/call", `"name":"counting__record","arguments":{"n":1},"inputResponses":{},"requestState":"`+id+`/1"`, "counting__record")
		}, false},
		{"session", "tools/list", session(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), false},
		{"session", "a response to a question", session(http.MethodPost, `{"jsonrpc":"2.0","id":"holdpoint/question/x/1","result":{}}`), false},
		{"conversation", "GET", api(http.MethodGet, "conversations/%s", ""), true},
		{"file", "GET", api(http.MethodGet, "files/%s", ""), false},
		{"file", "as an attachment", func(v visitor, id string) string {
			return v.requestMCP("tools/call", `"name":"counting__record","arguments":{"n":2,"attachments":[{"file_id":"`+id+`"}]}`)
		}, false},
		{"idempotency key", "with other arguments", func(v visitor, key string) string {
			return v.requestMCP("tools/call", `"name":"counting__record","arguments":{"n":3},"_meta":{"dev.holdpoint/idempotency_key":"`+key+`"}`)
		}, false},
		// These end the object if the caller owns it.
		{"call", "cancel", api(http.MethodPost, "calls/%s/cancel", "{}"), true},
		{"task", "tasks/cancel", task("tasks/cancel"), false},
		{"file", "DELETE", api(http.MethodDelete, "files/%s", ""), false},
		{"session", "DELETE", session(http.MethodDelete, ""), false},
	}
}

// visitor is an agent that sends a request with an ID, and returns the status and body of the response.
type visitor struct {
	t *testing.T
	holdpoint.Agent
}

func (v visitor) endpointURL() string { return v.URL + "/agents/" + v.Name + "/mcp" }

func (v visitor) sendRequest(method, url, body string, headers map[string]string) string {
	v.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewBufferString(body))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+v.Key)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, said)
}

func (v visitor) requestAPI(method, path, body string) string {
	v.t.Helper()
	return v.sendRequest(method, v.URL+"/api/v1/"+path, body, map[string]string{"Content-Type": "application/json"})
}

func (v visitor) requestMCP(method, params string) string {
	v.t.Helper()
	return v.sendRequest(http.MethodPost, v.endpointURL(), `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`,
		map[string]string{"Content-Type": "application/json"})
}

func (v visitor) requestModern(method, params, name string) string {
	v.t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	return v.sendRequest(http.MethodPost, v.endpointURL(), `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`, map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Mcp-Name": name,
	})
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T[0-9:.]+Z`)
)

// anonymizeAnswer removes the parts of a response that always differ: the given ID, new IDs, and times.
func anonymizeAnswer(text, id string) string {
	return times.ReplaceAllString(uuids.ReplaceAllString(strings.ReplaceAll(text, id, "ID"), "ID"), "TIME")
}
