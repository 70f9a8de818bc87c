package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// may lists the callers of each operation. The test fails for an operation that is missing here, so that each new one gets a
// deliberate rule.
var may = map[string]string{
	// o: operator, r: reviewer, a: an agent's key
	"GET /api/v1/conversations":      "ora",
	"GET /api/v1/conversations/{id}": "ora",

	"GET /api/v1/conversations/latest":         "ora", // their own
	"POST /api/v1/conversations":               "ora", // for an agent that they act as
	"GET /api/v1/conversations/{id}/messages":  "ora",
	"POST /api/v1/conversations/{id}/messages": "ora", // their own
	"GET /api/v1/conversations/{id}/events":    "ora",
	"POST /api/v1/conversations/{id}/cancel":   "ora", // their own, but operators any
	"POST /api/v1/conversations/{id}/close":    "ora", // likewise
	"POST /api/v1/conversations/{id}/fork":     "ora", // their own

	"GET /api/v1/calls":              "ora",
	"GET /api/v1/calls/export":       "or",
	"GET /api/v1/calls/{id}":         "ora",
	"POST /api/v1/calls/{id}/cancel": "ora", // their own, but operators any

	"GET /api/v1/calls/{id}/files/{file}": "ora",
	"POST /api/v1/files/presign-upload":   "ora", // for an agent that they act as
	"GET /api/v1/files/{id}":              "ora", // their own
	"DELETE /api/v1/files/{id}":           "ora",

	"POST /api/v1/calls/{id}/resolve":                        "o",
	"GET /api/v1/approvals":                                  "or",
	"GET /api/v1/approvals/{id}":                             "or",
	"GET /api/v1/approvals/{id}/preview":                     "or",
	"POST /api/v1/approvals/{id}/approve":                    "r",
	"POST /api/v1/approvals/{id}/reject":                     "r",
	"POST /api/v1/approvals/{id}/extend":                     "r",
	"POST /api/v1/approvals/{id}/withdraw":                   "r", // their own vote
	"POST /api/v1/approvals/{id}/review":                     "r",
	"POST /api/v1/approvals/{id}/claim":                      "r",
	"POST /api/v1/approvals/{id}/release":                    "r",
	"POST /api/v1/approvals/{id}/assign":                     "r",
	"POST /api/v1/approvals/{id}/comments":                   "r",
	"GET /api/v1/questions":                                  "or",
	"POST /api/v1/approvals/{id}/questions/{number}/approve": "r",
	"POST /api/v1/approvals/{id}/questions/{number}/reject":  "r",
	"GET /api/v1/audit":                                      "o",
	"GET /api/v1/insights":                                   "or", // decisions by person: operators only
	"GET /api/v1/insights/tools":                             "or",
	"GET /api/v1/audit/export":                               "o",
	"GET /api/v1/server":                                     "o",

	"POST /api/v1/apply": "o",
	"GET /api/v1/export": "o",

	"GET /api/v1/agents":                     "or",
	"POST /api/v1/agents":                    "o",
	"GET /api/v1/agents/{name}":              "or",
	"GET /api/v1/agents/{name}/tools":        "or",
	"PATCH /api/v1/agents/{name}":            "o",
	"DELETE /api/v1/agents/{name}":           "o",
	"GET /api/v1/agents/{name}/keys":         "o",
	"POST /api/v1/agents/{name}/keys":        "o",
	"DELETE /api/v1/agents/{name}/keys/{id}": "o",

	"GET /api/v1/skills":                             "or",
	"POST /api/v1/skills":                            "o",
	"GET /api/v1/skills/{name}":                      "or",
	"PATCH /api/v1/skills/{name}":                    "o",
	"DELETE /api/v1/skills/{name}":                   "o",
	"GET /api/v1/skills/{name}/document":             "o",
	"POST /api/v1/skills/{name}/probe":               "o",
	"POST /api/v1/skills/{name}/try":                 "o",
	"POST /api/v1/skill-drafts/try":                  "o",
	"POST /api/v1/skill-drafts/examine":              "o",
	"GET /api/v1/skills/{name}/tools":                "or",
	"GET /api/v1/skills/{name}/health":               "or",
	"PATCH /api/v1/skills/{name}/tools/{tool}":       "o",
	"POST /api/v1/skills/{name}/tools/{tool}/accept": "o",
	"POST /api/v1/skills/{name}/tools/{tool}/refuse": "o",

	"GET /api/v1/grants":               "or",
	"POST /api/v1/grants":              "or",
	"POST /api/v1/grants/preview":      "or",
	"GET /api/v1/grants/suggestions":   "o",
	"GET /api/v1/grants/{id}":          "or",
	"POST /api/v1/grants/{id}/confirm": "or",
	"POST /api/v1/grants/{id}/revoke":  "or",

	"GET /api/v1/plans":               "or",
	"POST /api/v1/plans":              "ora", // for an agent that they act as
	"GET /api/v1/plans/{id}":          "ora", // their own
	"POST /api/v1/plans/{id}/cancel":  "ora", // their own, but operators any
	"POST /api/v1/plans/{id}/approve": "r",
	"POST /api/v1/plans/{id}/reject":  "r",
	"POST /api/v1/plans/{id}/revoke":  "or",

	"GET /api/v1/rules":                   "or",
	"GET /api/v1/rules/{name}":            "or",
	"PUT /api/v1/rules/{name}":            "o",
	"DELETE /api/v1/rules/{name}":         "o",
	"GET /api/v1/rules/{name}/history":    "or",
	"GET /api/v1/policies":                "or",
	"GET /api/v1/policies/{name}":         "or",
	"PUT /api/v1/policies/{name}":         "o",
	"DELETE /api/v1/policies/{name}":      "o",
	"GET /api/v1/policies/{name}/history": "or",

	"POST /api/v1/rules/check":  "or",
	"POST /api/v1/rules/replay": "or",

	"GET /api/v1/changes":               "o",
	"GET /api/v1/changes/{id}":          "o",
	"POST /api/v1/changes/{id}/approve": "o",
	"POST /api/v1/changes/{id}/reject":  "o",

	"GET /api/v1/connections":                  "or", // their own, but operators any
	"GET /api/v1/connections/{id}":             "or",
	"POST /api/v1/connections/{id}/disconnect": "or",
	"POST /api/v1/skills/{name}/connect":       "or", // their own account; a shared one is for operators
	"GET /api/v1/people":                       "o",
	"GET /api/v1/people/{id}":                  "o",
	"PATCH /api/v1/people/{id}":                "o",
	"GET /api/v1/people/{id}/sessions":         "o",
	"POST /api/v1/people/{id}/sign-out":        "o",
	"POST /api/v1/people/{id}/link":            "o",
	"GET /api/v1/people/{id}/export":           "o",
	"POST /api/v1/people/{id}/erase":           "o",
	"GET /api/v1/people/{id}/erasure":          "o",

	"GET /api/v1/guards":         "or",
	"DELETE /api/v1/guards/{id}": "o",

	"GET /api/v1/legal-holds":            "o",
	"POST /api/v1/legal-holds":           "o",
	"POST /api/v1/legal-holds/{id}/lift": "o",

	"DELETE /api/v1/people/{id}/sessions/{session}": "o",

	"DELETE /api/v1/people/{id}/link": "o",

	"GET /api/v1/teams":                        "or",
	"GET /api/v1/reviewers":                    "or",
	"PUT /api/v1/teams/{name}/schedule":        "o",
	"POST /api/v1/teams/{name}/schedule/fetch": "o",
	"DELETE /api/v1/teams/{name}/schedule":     "o",
	"GET /api/v1/absences":                     "or",
	"POST /api/v1/absences":                    "or", // their own, but operators for all
	"DELETE /api/v1/absences/{id}":             "or",
	"GET /api/v1/delegations":                  "or",
	"POST /api/v1/delegations":                 "or", // their own teams, but operators all
	"DELETE /api/v1/delegations/{id}":          "or",

	"GET /api/v1/webhooks":              "o",
	"POST /api/v1/webhooks":             "o",
	"DELETE /api/v1/webhooks/{name}":    "o",
	"POST /api/v1/webhooks/{name}/test": "o",

	"GET /api/v1/agents/{name}/callbacks":                                    "o",
	"POST /api/v1/agents/{name}/callbacks":                                   "o",
	"DELETE /api/v1/agents/{name}/callbacks/{callback}":                      "o",
	"POST /api/v1/agents/{name}/callbacks/{callback}/rotate-secret":          "o",
	"POST /api/v1/agents/{name}/callbacks/{callback}/enable":                 "o",
	"POST /api/v1/agents/{name}/callbacks/{callback}/disable":                "o",
	"POST /api/v1/agents/{name}/callbacks/{callback}/test":                   "o",
	"GET /api/v1/agents/{name}/callbacks/{callback}/deliveries":              "o",
	"POST /api/v1/agents/{name}/callbacks/{callback}/deliveries/{id}/resend": "o",

	"GET /api/v1/assignments":                    "or",
	"POST /api/v1/assignments":                   "o",
	"DELETE /api/v1/assignments/{agent}/{skill}": "o",

	"GET /api/v1/tokens":         "or", // their own, but operators all
	"POST /api/v1/tokens":        "or", // for themselves
	"DELETE /api/v1/tokens/{id}": "or", // their own, but operators any

	"GET /api/v1/invitations":         "o",
	"POST /api/v1/invitations":        "o",
	"DELETE /api/v1/invitations/{id}": "o",
	"POST /api/v1/invitations/redeem": "", // the holder of an invitation
}

// listOperations reads the operations of the API from the OpenAPI document. Those of agents and gateways are not its own.
func (w *world) listOperations() []string {
	w.t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	check(w.t, json.Unmarshal([]byte(w.send(http.MethodGet, "/api/openapi.json", "", "").body), &document))
	var found []string
	for path, methods := range document.Paths {
		if !strings.HasPrefix(path, "/api/") {
			continue
		}
		for method := range methods {
			found = append(found, strings.ToUpper(method)+" "+path)
		}
	}
	return found
}

func TestWhoMayWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operations := w.listOperations()
	if len(operations) != len(may) {
		t.Errorf("%d operations, %d in the table", len(operations), len(may))
	}
	credentials := map[byte]string{'o': w.operator, 'r': w.reviewer, 'a': w.key}
	for _, operation := range operations {
		t.Run(operation, func(t *testing.T) {
			allowed, ok := may[operation]
			if !ok {
				t.Fatal("the table has no callers for this operation")
			}
			method, path, _ := strings.Cut(operation, " ")
			path = strings.NewReplacer("{id}", uuid.NewString(), "{name}", "nobody", "{tool}", "nothing",
				"{session}", uuid.NewString(), "{file}", uuid.NewString(), "{agent}", "nobody", "{callback}", "none", "{skill}", "nothing",
				"{number}", "1").Replace(path)
			body := ""
			if method == http.MethodPost || method == http.MethodPatch || method == http.MethodPut {
				body = `{}`
			}
			w.send(method, path, "", body).wantProblem(t, 401, "unauthenticated")
			w.send(method, path, "hpk_nonsense", body).wantProblem(t, 401, "unauthenticated")
			for role, token := range credentials {
				got := w.send(method, path, token, body)
				forbidden := got.status == http.StatusForbidden
				if forbidden == strings.ContainsRune(allowed, rune(role)) {
					t.Errorf("%c: status %d: %s", role, got.status, got.body)
				}
				if forbidden {
					got.wantProblem(t, 403, "forbidden")
				}
				if got.status == http.StatusUnauthorized || got.status >= 500 {
					t.Errorf("%c: status %d: %s", role, got.status, got.body)
				}
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct {
		name   string
		header map[string][]string
		status int
	}{
		{"bearer token", map[string][]string{"Authorization": {"Bearer " + w.reviewer}}, 200},
		{"lower case scheme", map[string][]string{"Authorization": {"bearer " + w.reviewer}}, 200},
		{"agent key as bearer", map[string][]string{"Authorization": {"Bearer " + w.key}}, 200},
		{"agent key by itself", map[string][]string{"X-Agent-API-Key": {w.key}}, 200},
		{"person's token as agent key", map[string][]string{"X-Agent-API-Key": {w.reviewer}}, 401},
		{"bootstrap token as agent key", map[string][]string{"X-Agent-API-Key": {bootstrap}}, 401},
		{"basic", map[string][]string{"Authorization": {"Basic " + w.reviewer}}, 401},
		{"empty bearer", map[string][]string{"Authorization": {"Bearer "}}, 401},
		{"two", map[string][]string{"Authorization": {"Bearer " + w.reviewer}, "X-Agent-API-Key": {w.key}}, 401},
		{"two bearers", map[string][]string{"Authorization": {"Bearer " + w.key, "Bearer " + w.reviewer}}, 401},
		{"identity by header", map[string][]string{"X-User": {"olga"}, "X-Forwarded-User": {"olga"}}, 401},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := w.sendHeaders(t, "/api/v1/calls", test.header)
			if got.status != test.status {
				t.Errorf("status %d, want %d: %s", got.status, test.status, got.body)
			}
			if got.status == 401 && got.header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
}

func TestRevokedCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.post("agents/billing/keys", w.operator, "").wantStatus(t, 201)
	secret, _ := key["key"].(string)
	w.get("calls", secret).wantStatus(t, 200)
	list := w.get("agents/billing/keys", w.operator)
	if strings.Contains(list.body, secret) || len(listItems(t, list.wantStatus(t, 200))) != 2 {
		t.Errorf("keys: %s", list.body)
	}
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE agent_keys SET expires_at = '2040-01-01T00:00:00Z' WHERE id = $1`, key["id"])
	check(t, err)
	wantMembers(t, "key", listItems(t, w.get("agents/billing/keys", w.operator).wantStatus(t, 200))[0],
		`{"created_by":{"name":"olga","issuer":"holdpoint","subject":"olga"},"expires_at":"2040-01-01T00:00:00Z"}`)
	w.send("DELETE", "/api/v1/agents/other/keys/"+key["id"].(string), w.operator, "").wantProblem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/agents/billing/keys/"+key["id"].(string), w.operator, "").wantStatus(t, 204)
	w.get("calls", secret).wantProblem(t, 401, "unauthenticated")
	w.send("DELETE", "/api/v1/agents/billing/keys/"+key["id"].(string), w.operator, "").wantProblem(t, 404, "not_found")

	token := w.post("tokens", w.operator, `{"person":"olga","roles":["operator"],"agents":["billing"]}`).wantStatus(t, 201)
	secret, _ = token["key"].(string)
	w.get("approvals", secret).wantStatus(t, 200)
	list = w.get("tokens", w.operator)
	if strings.Contains(list.body, secret) || !strings.Contains(list.body, `"person":"olga","roles":["operator"],"agents":["billing"]`) {
		t.Errorf("tokens: %s", list.body)
	}
	w.send("DELETE", "/api/v1/tokens/"+token["id"].(string), w.operator, "").wantStatus(t, 204)
	w.get("approvals", secret).wantProblem(t, 401, "unauthenticated")
}

func TestTokenBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, body := range []string{
		`{"roles":["boss"]}`, `{"roles":["reviewer"]}`, `{"agents":[""]}`, `{"agents":["other"]}`, `{"agents":["*"]}`,
		`{"person":"olga","person_id":"` + w.personID(w.operator).String() + `"}`,
	} {
		w.post("tokens", w.operator, body).wantProblem(t, 422, "invalid_request")
	}
	for _, body := range []string{
		`{"person":"bootstrap","roles":["reviewer"]}`, `{"person":"a\u202eb","roles":["reviewer"]}`,
	} {
		w.post("tokens", bootstrap, body).wantProblem(t, 422, "invalid_request")
	}
}

// TestDecideAsAgent checks that no request with an agent's key makes a decision.
func TestDecideAsAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	digest := w.getDigest(id)
	for _, action := range []string{"approve", "reject"} {
		body := fmt.Sprintf(`{"digest":%q,"%s":"x"}`, digest, reasonField(action))
		w.post("approvals/"+id.String()+"/"+action, w.key, body).wantProblem(t, 403, "forbidden")
		w.post("approvals/"+id.String()+"/"+action, w.operator, body).wantProblem(t, 403, "forbidden")
	}
	if got := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["status"]; got != "pending" {
		t.Errorf("approval is %v", got)
	}
}
