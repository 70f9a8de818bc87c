package ui_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

// sameAs maps routes of the dashboard to the equivalent operations of the API. Routes about the person's own browser,
// and steps toward another route, map to "".
var sameAs = map[string]string{
	"GET /{$}":                 "GET approvals",
	"GET /next":                "",
	"GET /queue/views":         "",
	"POST /queue/views":        "",
	"POST /queue/views/delete": "",
	"GET /queue/{form...}":     "",
	"GET /calls":               "", // of all agents; the API's also shows agents' own
	"GET /calls/export":        "GET calls/export",
	"GET /conversations":       "",
	"GET /conversations/{id}":  "",
	"GET /audit":               "GET audit",

	// In the API, agents and people who may act as one can use these too.
	"GET /conversations/new":                "",
	"POST /conversations/new":               "",
	"GET /conversations/{id}/entries/{seq}": "",
	"POST /conversations/{id}/messages":     "",
	"POST /conversations/{id}/stop":         "",
	"POST /conversations/{id}/close":        "",
	"POST /conversations/{id}/fork":         "",

	"GET /audit/export":         "GET audit/export",
	"GET /calls/{id}":           "GET approvals/{id}",
	"GET /calls/{id}/arguments": "GET approvals/{id}",
	"GET /calls/{id}/result":    "",
	"GET /calls/{id}/before":    "GET approvals/{id}/preview",
	"POST /calls/{id}/reveal":   "GET approvals/{id}",

	"GET /calls/{id}/files/{file}": "", // in the API also for whoever made the call

	"POST /calls/{id}/approve":      "POST approvals/{id}/approve",
	"POST /calls/{id}/confirm":      "POST approvals/{id}/approve",
	"POST /calls/{id}/reject":       "POST approvals/{id}/reject",
	"POST /calls/{id}/resolve":      "POST calls/{id}/resolve",
	"POST /calls/{id}/cancel":       "", // in the API also for whoever made the call
	"POST /calls/{id}/edit":         "POST approvals/{id}/approve",
	"POST /calls/{id}/extend":       "POST approvals/{id}/extend",
	"POST /calls/{id}/undo":         "POST approvals/{id}/withdraw",
	"POST /calls/{id}/break-glass":  "POST approvals/{id}/approve",
	"POST /calls/{id}/review-glass": "POST approvals/{id}/review",
	"POST /calls/{id}/claim":        "POST approvals/{id}/claim",
	"POST /calls/{id}/release":      "POST approvals/{id}/release",
	"POST /calls/{id}/assign":       "POST approvals/{id}/assign",
	"POST /calls/{id}/comments":     "POST approvals/{id}/comments",
	"POST /calls/{id}/seen":         "",

	"POST /calls/{id}/questions/{number}/approve": "POST approvals/{id}/questions/{number}/approve",
	"POST /calls/{id}/questions/{number}/reject":  "POST approvals/{id}/questions/{number}/reject",
	"POST /calls/{id}/questions/{number}/reveal":  "GET approvals/{id}",

	"GET /calls/{id}/like":  "POST approvals/{id}/approve",
	"POST /calls/{id}/like": "POST approvals/{id}/approve",

	"GET /search": "", // by name, of what the API lists

	"GET /insights":       "GET insights",
	"GET /insights/tools": "GET insights/tools",

	"GET /imports/new":               "POST skill-drafts/examine",
	"POST /imports/new":              "POST skill-drafts/examine",
	"GET /imports/{id}":              "POST skill-drafts/examine",
	"POST /imports/{id}":             "POST skill-drafts/examine",
	"GET /imports/{id}/credentials":  "POST skills",
	"POST /imports/{id}/credentials": "POST skills",
	"GET /imports/{id}/try":          "POST skill-drafts/try",
	"POST /imports/{id}/try":         "POST skill-drafts/try",
	"POST /imports/{id}/save":        "POST skills",
	"POST /imports/{id}/drop":        "POST skills",

	"GET /skills":               "GET skills",
	"GET /skills/{id}":          "GET skills/{id}",
	"GET /skills/new":           "POST skills",
	"POST /skills/new":          "POST skills",
	"GET /skills/{id}/edit":     "PATCH skills/{id}",
	"POST /skills/{id}/edit":    "PATCH skills/{id}",
	"GET /skills/{id}/delete":   "DELETE skills/{id}",
	"POST /skills/{id}/delete":  "DELETE skills/{id}",
	"POST /skills/{id}/ask":     "PATCH skills/{id}",
	"POST /skills/{id}/probe":   "POST skills/{id}/probe",
	"GET /skills/{id}/tools":    "GET skills/{id}/tools",
	"POST /skills/{id}/tools":   "PATCH skills/{id}/tools/x",
	"POST /skills/{id}/accept":  "POST skills/{id}/tools/x/accept",
	"POST /skills/{id}/refuse":  "POST skills/{id}/tools/x/refuse",
	"POST /skills/{id}/connect": "POST skills/{id}/connect",

	"GET /agents":                         "GET agents",
	"GET /agents/new":                     "POST agents",
	"POST /agents/new":                    "POST agents",
	"GET /agents/{id}":                    "GET agents/{id}",
	"GET /agents/{id}/edit":               "PATCH agents/{id}",
	"POST /agents/{id}/edit":              "PATCH agents/{id}",
	"GET /agents/{id}/delete":             "DELETE agents/{id}",
	"POST /agents/{id}/delete":            "DELETE agents/{id}",
	"GET /agents/{id}/assign":             "POST assignments",
	"POST /agents/{id}/assign":            "POST assignments",
	"POST /agents/{id}/unassign":          "DELETE assignments/{id}/x",
	"POST /agents/{id}/keys":              "POST agents/{id}/keys",
	"POST /agents/{id}/keys/{key}/revoke": "DELETE agents/{id}/keys/{key}",

	"GET /agents/{id}/callbacks":                                          "POST agents/{id}/callbacks",
	"POST /agents/{id}/callbacks":                                         "POST agents/{id}/callbacks",
	"GET /agents/{id}/callbacks/{callback}":                               "GET agents/{id}/callbacks/x/deliveries",
	"POST /agents/{id}/callbacks/{callback}/test":                         "POST agents/{id}/callbacks/x/test",
	"POST /agents/{id}/callbacks/{callback}/rotate":                       "POST agents/{id}/callbacks/x/rotate-secret",
	"POST /agents/{id}/callbacks/{callback}/enable":                       "POST agents/{id}/callbacks/x/enable",
	"POST /agents/{id}/callbacks/{callback}/disable":                      "POST agents/{id}/callbacks/x/disable",
	"POST /agents/{id}/callbacks/{callback}/delete":                       "DELETE agents/{id}/callbacks/x",
	"POST /agents/{id}/callbacks/{callback}/deliveries/{delivery}/resend": "POST agents/{id}/callbacks/x/deliveries/{key}/resend",

	"GET /calls/{id}/grant":          "POST grants/preview",
	"POST /calls/{id}/grant":         "POST grants",
	"POST /calls/{id}/grant/preview": "POST grants/preview",
	"GET /grants":                    "GET grants",
	"GET /grants/suggestions":        "GET grants/suggestions",
	"GET /grants/{id}":               "GET grants/x",
	"POST /grants/{id}/revoke":       "POST grants/x/revoke",
	"POST /grants/{id}/confirm":      "POST grants/x/confirm",
	"GET /plans":                     "GET plans",
	"GET /plans/{id}":                "GET plans/x",
	"POST /plans/{id}/approve":       "POST plans/x/approve",
	"POST /plans/{id}/reject":        "POST plans/x/reject",
	"POST /plans/{id}/revoke":        "POST plans/x/revoke",

	"GET /rules":                      "GET rules",
	"GET /rules/new":                  "PUT rules/x",
	"POST /rules/new":                 "PUT rules/x",
	"POST /rules/check":               "", // in the API also for those who may only read
	"POST /rules/replay":              "", // likewise
	"GET /rules/named/{name}":         "GET rules/x/history",
	"GET /rules/named/{name}/edit":    "PUT rules/x",
	"POST /rules/named/{name}/edit":   "PUT rules/x",
	"POST /rules/named/{name}/delete": "DELETE rules/x",
	"GET /rules/{form...}":            "GET rules",

	"GET /policies":                      "GET policies",
	"GET /policies/new":                  "PUT policies/x",
	"POST /policies/new":                 "PUT policies/x",
	"GET /policies/named/{name}":         "GET policies/x/history",
	"GET /policies/named/{name}/edit":    "PUT policies/x",
	"POST /policies/named/{name}/edit":   "PUT policies/x",
	"POST /policies/named/{name}/delete": "DELETE policies/x",
	"GET /policies/{form...}":            "GET policies",
	"GET /changes":                       "GET changes",
	"GET /changes/{id}":                  "GET changes/{id}",
	"POST /changes/{id}/approve":         "POST changes/{id}/approve",
	"POST /changes/{id}/reject":          "POST changes/{id}/reject",

	"GET /connections":                  "GET connections",
	"GET /connections/{id}":             "GET connections/{id}",
	"POST /connections/{id}/disconnect": "POST connections/{id}/disconnect",
	"GET /oauth/callback":               "",

	"GET /members":                    "GET people",
	"POST /members":                   "POST invitations",
	"POST /members/revoke-invitation": "DELETE invitations/{key}",
	"GET /members/{id}":               "GET people/{id}",
	"POST /members/{id}/grant":        "PATCH people/{id}",
	"POST /members/{id}/block":        "PATCH people/{id}",
	"POST /members/{id}/unblock":      "PATCH people/{id}",
	"POST /members/{id}/end-session":  "DELETE people/{id}/sessions/{key}",
	"POST /members/{id}/sign-out":     "POST people/{id}/sign-out",
	"POST /members/{id}/tokens":       "", // on operators' pages; people create their own in the settings
	"POST /members/{id}/revoke-token": "", // likewise, but any token
	"POST /members/{id}/link":         "POST people/{id}/link",
	"POST /members/{id}/unlink":       "DELETE people/{id}/link",

	"GET /settings":                         "",
	"POST /settings/theme":                  "",
	"POST /settings/queue":                  "",
	"POST /settings/language":               "",
	"POST /settings/tokens":                 "POST tokens",
	"POST /settings/revoke-token":           "DELETE tokens/{id}",
	"POST /settings/end-session":            "",
	"POST /settings/sign-out":               "",
	"POST /settings/push":                   "",
	"POST /settings/push/end":               "",
	"POST /settings/push/{id}/remove":       "",
	"GET /settings/push/{form...}":          "",
	"GET /settings/webhooks":                "GET webhooks",
	"POST /settings/webhooks":               "POST webhooks",
	"POST /settings/webhooks/{name}/test":   "POST webhooks/x/test",
	"POST /settings/webhooks/{name}/delete": "DELETE webhooks/x",
	"GET /settings/webhooks/{form...}":      "GET webhooks",
	"GET /teams":                            "GET teams",
	"POST /teams/absences":                  "POST absences",
	"POST /teams/absences/{id}/end":         "DELETE absences/{id}",
	"POST /teams/delegations":               "POST delegations",
	"POST /teams/delegations/{id}/end":      "DELETE delegations/{id}",
	"POST /teams/schedules":                 "PUT teams/x/schedule",
	"POST /teams/schedules/{name}/fetch":    "POST teams/x/schedule/fetch",
	"POST /teams/schedules/{name}/delete":   "DELETE teams/x/schedule",
	"GET /teams/{form...}":                  "GET teams",

	"GET /guards":              "GET guards",
	"POST /guards/{id}/forget": "DELETE guards/{id}",

	"GET /settings/holds":            "GET legal-holds",
	"POST /settings/holds":           "POST legal-holds",
	"POST /settings/holds/{id}/lift": "POST legal-holds/x/lift",
	"GET /settings/holds/{form...}":  "GET legal-holds",
}

// The API refuses people exactly when the dashboard does.
func TestTheAPIHasTheSameRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	served, err := api.New(api.Config{
		Calls: w.calls, Figures: w.figures, History: history.New(w.calls), Agents: w.agents, Trials: w.trials, Catalog: w.catalog, Identity: w.people, OAuth: w.oauth, Notify: w.notify, Callbacks: w.callbacks, Retention: w.retention, OnCall: w.oncall, Control: w.control, Guards: w.guards, Audit: w.db.Pool(),
	})
	check(t, err)
	mux := http.NewServeMux()
	served.Mount(mux)
	tokens := map[rune]string{}
	for role, of := range map[rune]identity.Role{'o': identity.Operator, 'r': identity.Reviewer} {
		_, tokens[role], err = w.people.CreateToken(t.Context(), uuid.Nil, string(of), []identity.Role{of}, nil)
		check(t, err)
	}
	refuses := func(operation string, role rune) bool {
		t.Helper()
		method, path, _ := strings.Cut(operation, " ")
		path = "/api/v1/" + strings.NewReplacer("{id}", uuid.NewString(), "{key}", uuid.NewString()).Replace(path)
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+tokens[role])
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		if answer.Code == http.StatusUnauthorized || answer.Code == http.StatusMethodNotAllowed || strings.HasPrefix(answer.Body.String(), "404 page") {
			t.Fatalf("%s: there is no such operation: %d %s", operation, answer.Code, answer.Body)
		}
		return answer.Code == http.StatusForbidden
	}
	compared := 0
	for _, route := range w.ui.Routes() {
		operation, ok := sameAs[route.Pattern]
		if !ok {
			t.Errorf("%s: the table does not say which operation of the API is the same", route.Pattern)
		}
		if operation == "" {
			continue
		}
		for role := range tokens {
			compared++
			if got, want := refuses(operation, role), !strings.ContainsRune(may[route.Pattern], role); got != want {
				t.Errorf("%c: the dashboard refuses %s: %t, the API refuses %s: %t", role, route.Pattern, want, operation, got)
			}
		}
	}
	if compared < 100 {
		t.Errorf("%d comparisons", compared)
	}
}
