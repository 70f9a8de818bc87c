package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// may lists who may use each route. A missing route fails the test, so that every new one is considered.
var may = map[string]string{
	// o: operator, r: reviewer
	"GET /{$}":                 "or",
	"GET /next":                "r",
	"GET /queue/views":         "or",
	"POST /queue/views":        "or", // only their own
	"POST /queue/views/delete": "or",
	"GET /queue/{form...}":     "or",
	"GET /calls":               "or",
	"GET /calls/export":        "or",
	"GET /conversations":       "or",
	"GET /conversations/{id}":  "or",
	"GET /audit":               "o",

	"GET /conversations/new":                "or", // with agents that they may act as
	"POST /conversations/new":               "or",
	"GET /conversations/{id}/entries/{seq}": "or",
	"POST /conversations/{id}/messages":     "or", // only their own
	"POST /conversations/{id}/stop":         "or",
	"POST /conversations/{id}/close":        "or",
	"POST /conversations/{id}/fork":         "or",

	"GET /audit/export":         "o",
	"GET /calls/{id}":           "or",
	"GET /calls/{id}/arguments": "or",
	"GET /calls/{id}/result":    "or",
	"GET /calls/{id}/before":    "or",
	"POST /calls/{id}/reveal":   "or",

	"GET /calls/{id}/files/{file}": "or",

	"POST /calls/{id}/approve":      "r",
	"POST /calls/{id}/confirm":      "r",
	"POST /calls/{id}/reject":       "r",
	"POST /calls/{id}/resolve":      "o",
	"POST /calls/{id}/cancel":       "o",
	"POST /calls/{id}/edit":         "r",
	"POST /calls/{id}/extend":       "r",
	"POST /calls/{id}/undo":         "r",
	"POST /calls/{id}/break-glass":  "r",
	"POST /calls/{id}/review-glass": "r",
	"POST /calls/{id}/claim":        "r",
	"POST /calls/{id}/release":      "r",
	"POST /calls/{id}/assign":       "r",
	"POST /calls/{id}/comments":     "r",
	"POST /calls/{id}/seen":         "or",

	"POST /calls/{id}/questions/{number}/approve": "r",
	"POST /calls/{id}/questions/{number}/reject":  "r",
	"POST /calls/{id}/questions/{number}/reveal":  "or",

	"GET /calls/{id}/like":  "r",
	"POST /calls/{id}/like": "r",

	"GET /search": "or", // operators also find people

	"GET /insights":       "or", // operators also see each person's decisions
	"GET /insights/tools": "or",

	"GET /imports/new":               "o",
	"POST /imports/new":              "o",
	"GET /imports/{id}":              "o",
	"POST /imports/{id}":             "o",
	"GET /imports/{id}/credentials":  "o",
	"POST /imports/{id}/credentials": "o",
	"GET /imports/{id}/try":          "o",
	"POST /imports/{id}/try":         "o",
	"POST /imports/{id}/save":        "o",
	"POST /imports/{id}/drop":        "o",

	"GET /skills":               "or",
	"GET /skills/{id}":          "or",
	"GET /skills/new":           "o",
	"POST /skills/new":          "o",
	"GET /skills/{id}/edit":     "o",
	"POST /skills/{id}/edit":    "o",
	"GET /skills/{id}/delete":   "o",
	"POST /skills/{id}/delete":  "o",
	"POST /skills/{id}/ask":     "o",
	"POST /skills/{id}/probe":   "o",
	"GET /skills/{id}/tools":    "or",
	"POST /skills/{id}/tools":   "o",
	"POST /skills/{id}/accept":  "o",
	"POST /skills/{id}/refuse":  "o",
	"POST /skills/{id}/connect": "or", // their own account; operators also shared ones

	"GET /agents":                         "or",
	"GET /agents/new":                     "o",
	"POST /agents/new":                    "o",
	"GET /agents/{id}":                    "or",
	"GET /agents/{id}/edit":               "o",
	"POST /agents/{id}/edit":              "o",
	"GET /agents/{id}/delete":             "o",
	"POST /agents/{id}/delete":            "o",
	"GET /agents/{id}/assign":             "o",
	"POST /agents/{id}/assign":            "o",
	"POST /agents/{id}/unassign":          "o",
	"POST /agents/{id}/keys":              "o",
	"POST /agents/{id}/keys/{key}/revoke": "o",

	"GET /agents/{id}/callbacks":                                          "o",
	"POST /agents/{id}/callbacks":                                         "o",
	"GET /agents/{id}/callbacks/{callback}":                               "o",
	"POST /agents/{id}/callbacks/{callback}/test":                         "o",
	"POST /agents/{id}/callbacks/{callback}/rotate":                       "o",
	"POST /agents/{id}/callbacks/{callback}/enable":                       "o",
	"POST /agents/{id}/callbacks/{callback}/disable":                      "o",
	"POST /agents/{id}/callbacks/{callback}/delete":                       "o",
	"POST /agents/{id}/callbacks/{callback}/deliveries/{delivery}/resend": "o",

	"GET /calls/{id}/grant":          "or",
	"POST /calls/{id}/grant":         "or",
	"POST /calls/{id}/grant/preview": "or",
	"GET /grants":                    "or",
	"GET /grants/suggestions":        "o",
	"GET /grants/{id}":               "or",
	"POST /grants/{id}/revoke":       "or",
	"POST /grants/{id}/confirm":      "or",
	"GET /plans":                     "or",
	"GET /plans/{id}":                "or",
	"POST /plans/{id}/approve":       "r",
	"POST /plans/{id}/reject":        "r",
	"POST /plans/{id}/revoke":        "or",

	"GET /rules":                      "or",
	"GET /rules/new":                  "o",
	"POST /rules/new":                 "o",
	"POST /rules/check":               "o",
	"POST /rules/replay":              "o",
	"GET /rules/named/{name}":         "or",
	"GET /rules/named/{name}/edit":    "o",
	"POST /rules/named/{name}/edit":   "o",
	"POST /rules/named/{name}/delete": "o",
	"GET /rules/{form...}":            "or",

	"GET /policies":                      "or",
	"GET /policies/new":                  "o",
	"POST /policies/new":                 "o",
	"GET /policies/named/{name}":         "or",
	"GET /policies/named/{name}/edit":    "o",
	"POST /policies/named/{name}/edit":   "o",
	"POST /policies/named/{name}/delete": "o",
	"GET /policies/{form...}":            "or",
	"GET /changes":                       "o",
	"GET /changes/{id}":                  "o",
	"POST /changes/{id}/approve":         "o",
	"POST /changes/{id}/reject":          "o",

	"GET /connections":                  "or", // their own; operators all
	"GET /connections/{id}":             "or",
	"POST /connections/{id}/disconnect": "or",
	"GET /oauth/callback":               "or",

	"GET /members":                    "o",
	"POST /members":                   "o",
	"POST /members/revoke-invitation": "o",
	"GET /members/{id}":               "o",
	"POST /members/{id}/grant":        "o",
	"POST /members/{id}/block":        "o",
	"POST /members/{id}/unblock":      "o",
	"POST /members/{id}/end-session":  "o",
	"POST /members/{id}/sign-out":     "o",
	"POST /members/{id}/tokens":       "o",
	"POST /members/{id}/revoke-token": "o",
	"POST /members/{id}/link":         "o",
	"POST /members/{id}/unlink":       "o",

	"GET /settings":           "or",
	"POST /settings/theme":    "or",
	"POST /settings/queue":    "or",
	"POST /settings/language": "or",

	"POST /settings/end-session":  "or", // only their own
	"POST /settings/tokens":       "or", // for themselves
	"POST /settings/revoke-token": "or", // only their own
	"POST /settings/sign-out":     "or",

	"POST /settings/push":                   "r",
	"POST /settings/push/end":               "or", // only their own
	"POST /settings/push/{id}/remove":       "or",
	"GET /settings/push/{form...}":          "or",
	"GET /settings/webhooks":                "o",
	"POST /settings/webhooks":               "o",
	"POST /settings/webhooks/{name}/test":   "o",
	"POST /settings/webhooks/{name}/delete": "o",
	"GET /settings/webhooks/{form...}":      "o",
	"GET /teams":                            "or",
	"POST /teams/absences":                  "or", // their own; operators those of others
	"POST /teams/absences/{id}/end":         "or",
	"POST /teams/delegations":               "or", // their own teams; operators all
	"POST /teams/delegations/{id}/end":      "or",
	"POST /teams/schedules":                 "o",
	"POST /teams/schedules/{name}/fetch":    "o",
	"POST /teams/schedules/{name}/delete":   "o",
	"GET /teams/{form...}":                  "or",

	"GET /guards":              "or",
	"POST /guards/{id}/forget": "o",

	"GET /settings/holds":            "o",
	"POST /settings/holds":           "o",
	"POST /settings/holds/{id}/lift": "o",
	"GET /settings/holds/{form...}":  "o",
}

func TestWhoMayWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	routes := w.ui.Routes()
	if len(routes) != len(may) {
		t.Errorf("%d routes, %d in the table", len(routes), len(may))
	}
	people := func() map[rune]*visitor {
		return map[rune]*visitor{'o': w.signedIn("olga", identity.Operator), 'r': w.signedIn("rita", identity.Reviewer), 'n': w.visitor()}
	}
	present := people()
	for _, route := range routes {
		allowed, ok := may[route.Pattern]
		if !ok {
			t.Errorf("%s: the table does not say who may use this", route.Pattern)
		}
		method, path, _ := strings.Cut(route.Pattern, " ")
		path = strings.NewReplacer("{$}", "", "{id}", uuid.NewString(), "{key}", uuid.NewString(), "{file}", uuid.NewString(), "{tool}", "nothing", "{name}", "nothing", "{form...}", "x", "{seq}", "1").Replace(path)
		for role, v := range present {
			a := v.get(path)
			if method != http.MethodGet {
				a = v.post(path, url.Values{})
			}
			if route.Pattern == "POST /settings/sign-out" && a.status == http.StatusSeeOther {
				present = people() // new sessions, because the route ended the old ones
			}
			switch {
			case role == 'n':
				if !strings.HasPrefix(a.header.Get("Location"), "/sign-in") {
					t.Errorf("%s: signed out: %d to %q", route.Pattern, a.status, a.header.Get("Location"))
				}
			case strings.ContainsRune(allowed, role) == (a.status == http.StatusForbidden), a.status >= http.StatusInternalServerError:
				t.Errorf("%s: %c: %d", route.Pattern, role, a.status)
			}
		}
	}
}
