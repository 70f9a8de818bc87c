package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// nul is a text with NUL, as JSON.
const nul = `a\u0000b`

// Text that PostgreSQL cannot store is refused, with the name of its field.
func TestNULIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, unknown := w.parkCall(`{"n":1}`), w.parkCall(`{"n":2}`)
	_, err := w.db.Pool().Exec(t.Context(),
		`UPDATE calls SET status = 'unknown', finished_at = holdpoint_now(), effect = 'possible' WHERE id = $1`, unknown)
	check(t, err)
	decide, digest := "POST approvals/"+id.String(), w.getDigest(id)
	const skill = `"name":"s","transport":"http","url":"http://h/"`
	for _, test := range []struct{ operation, body, location string }{
		{decide + "/approve", fmt.Sprintf(`{"digest":%q,"note":"%s"}`, digest, nul), "body.note"},
		{decide + "/reject", fmt.Sprintf(`{"digest":%q,"reason":"%s"}`, digest, nul), "body.reason"},
		{"POST calls/" + unknown.String() + "/resolve", `{"outcome":"failed","note":"` + nul + `"}`, "body.note"},
		{"POST tokens", `{"person":"` + nul + `","roles":["reviewer"]}`, "body.person"},
		{"POST tokens", `{"agents":["` + nul + `"]}`, "body.agents"},
		{"POST invitations", `{"name":"` + nul + `","roles":["reviewer"]}`, "body.name"},
		{"POST invitations", `{"name":"x","roles":["reviewer"],"agents":["` + nul + `"]}`, "body.agents"},
		{"POST agents", `{"name":"` + nul + `"}`, "body.name"},
		{"POST agents", `{"name":"x","instructions":"` + nul + `"}`, "body.instructions"},
		{"PATCH agents/billing", `{"instructions":"` + nul + `"}`, "body.instructions"},
		{"POST agents", `{"name":"x","model":{"provider":"openai","name":"` + nul + `"}}`, "body.model.name"},
		{"POST agents", `{"name":"x","model":{"provider":"openai","name":"m","base_url":"http://h/` + nul + `"}}`, "body.model.base_url"},
		{"POST agents", `{"name":"x","skills":[{"skill":"files","tools":["` + nul + `"]}]}`, "body.skills[0].tools[0]"},
		{"POST assignments", `{"agent":"billing","skill":"files","prefix":"` + nul + `"}`, "body.prefix"},
		{"POST skills", `{` + skill + `,"headers":{"X-Y":"` + nul + `"}}`, "body.headers.X-Y"},
		{"POST skills", `{` + skill + `,"tools":{"` + nul + `":{"risk":"high"}}}`, "body.tools"},
		{"PATCH skills/files", `{"url":"http://h/` + nul + `"}`, "body.url"},
		{"PUT rules/r", `{"effect":"park","tools":["` + nul + `"]}`, "body.tools[0]"},
		{"PUT rules/r", `{"effect":"deny","message":"` + nul + `"}`, "body.message"},
		{"PUT rules/r", `{"effect":"deny","when":"args.x == '` + nul + `'"}`, "body.when"},
		{"POST grants", fmt.Sprintf(`{"call_id":%q,"arguments":[{"argument":"/%s","kind":"anything"}]}`, id, nul), "body.arguments[0].argument"},
		{"POST grants", fmt.Sprintf(`{"call_id":%q,"arguments":[{"argument":"/n","kind":"exact","values":["%s"]}]}`, id, nul), "body.arguments"},
	} {
		method, path, _ := strings.Cut(test.operation, " ")
		token := w.operator
		if strings.HasPrefix(path, "approvals/") {
			token = w.reviewer
		}
		v := w.send(method, "/api/v1/"+path, token, test.body).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
		if errs, _ := json.Marshal(v["errors"]); !strings.Contains(string(errs), `"location":"`+test.location+`"`) {
			t.Errorf("%s %s: %v", test.operation, test.body, v)
		}
	}
	if got := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["status"]; got != "pending" {
		t.Errorf("approval is %v", got)
	}
}

// An object whose name has NUL does not exist.
func TestNULInAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addresses := []string{
		"GET /api/v1/calls?agent=a%00", "GET /api/v1/conversations?agent=a%00", "GET /api/v1/assignments?agent=a%00",
		"GET /api/v1/audit?subject=a%00", "GET /api/v1/audit?cursor=a%00", "GET /api/v1/calls?cursor=a%00",
		"GET /api/v1/calls?status=a%00", "GET /api/v1/skills?cursor=a%00", "GET /api/v1/agents?cursor=a%00",
		"GET /api/v1/assignments?cursor=a%00", "GET /api/v1/skills/files/tools?cursor=a%00", "GET /api/v1/tokens?cursor=a%00",
		"POST /api/v1/skills/files/tools/a%00/accept", "DELETE /api/v1/assignments/a%00/files", "DELETE /api/v1/assignments/billing/a%00",
	}
	for operation := range may {
		if strings.Contains(operation, "{") {
			addresses = append(addresses, strings.NewReplacer("{id}", uuid.NewString(), "{name}", "a%00", "{tool}", "a%00",
				"{agent}", "a%00", "{skill}", "a%00").Replace(operation))
		}
	}
	for _, address := range addresses {
		method, path, _ := strings.Cut(address, " ")
		body := ""
		if method == http.MethodPost || method == http.MethodPatch || method == http.MethodPut {
			body = `{}`
		}
		if strings.HasSuffix(path, "/accept") || strings.HasSuffix(path, "/refuse") {
			body = `{"pin":"` + strings.Repeat("0", 64) + `"}`
		}
		if got := w.send(method, path, w.both, body); got.status != http.StatusNotFound && got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d: %s", address, got.status, got.body)
		}
	}
}
