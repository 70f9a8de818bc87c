package ui_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// scene is a page of the house in one state.
type scene struct {
	name  string // of its picture
	route string // its route's pattern; empty if it is not in the table
	path  string
	who   string // maren, jonas (not an operator), olga (not a reviewer) or nobody; empty: maren
	do    func(p *browsertest.Page)
	ready string // data-testid of an element that shows that the page is loaded
	said  bool   // the browser logs an error because the status is not 200
}

// scenes lists all pages in all states. A missing one fails TestEveryPageHasAScene.
func (h *house) scenes() []scene {
	at := func(state string) string {
		id, ok := h.calls[state]
		if !ok {
			h.t.Fatalf("the house has no call %q", state)
		}
		return callPath(id)
	}
	talk := func(state string) string {
		id, ok := h.conversations[state]
		if !ok {
			h.t.Fatalf("the house has no conversation %q", state)
		}
		return talkPath(id)
	}
	const showCall, showQueue, showTalk = "GET /calls/{id}", "GET /{$}", "GET /conversations/{id}"
	list := []scene{
		{name: "queue", route: showQueue, path: "/", ready: "row"},
		{name: "queue-grouped", route: showQueue, path: "/?group=tool&sort=unusual", ready: "row"},
		{name: "queue-views", route: "GET /queue/views", path: "/queue/views?sort=risk", ready: "save-view"},
		{name: "queue-call", route: showQueue, path: "/", ready: "row", do: func(p *browsertest.Page) {
			p.ClickOn("#row-" + h.calls["parked"].String() + " a")
			p.Wait("decide")
		}},
		{name: "call-changed", route: showCall, path: at("changed"), ready: "decide"},
		{name: "call-confirm", route: showCall, path: at("destructive"), ready: "decide", do: func(p *browsertest.Page) {
			p.WaitFor("buttons to work", armed)
			readAll(p)
			p.Click("approve")
			p.Wait("confirm")
		}},
		{name: "call-edit", route: showCall, path: at("parked"), ready: "decide", do: openEditor},
		{name: "call-edit-json", route: showCall, path: at("parked"), ready: "decide", do: func(p *browsertest.Page) {
			openEditor(p)
			p.Click("as-json")
			p.Wait("edit-json")
		}},
		{name: "call-edit-preview", route: showCall, path: at("parked"), ready: "decide", do: func(p *browsertest.Page) {
			openEditor(p)
			p.ClickOn(".edit-field input.source")
			browsertest.Eval[bool](p, `(document.activeElement.select(), true)`) // the draft of the look before is kept
			p.Press("Kestrel Papers Ltd")
			p.Click("edit-preview")
			p.Wait("edited")
		}},
		{name: "call-edit-problems", route: showCall, path: at("parked"), ready: "decide", said: true, do: func(p *browsertest.Page) {
			openEditor(p)
			p.Click("as-json")
			p.Wait("edit-json")
			p.ClickOn("#edit-json")
			p.Press(`"`)
			p.WaitFor("buttons to work", armed)
			p.Click("edit-preview")
			p.Wait("problems")
		}},
		{name: "call-request", route: showCall, path: at("request"), ready: "decide", do: func(p *browsertest.Page) { p.WaitText("before", "2026-03-17") }},
		{name: "call-before", route: "GET /calls/{id}/before", path: at("request") + "/before", ready: "before"},
		{name: "calls-like", route: "GET /calls/{id}/like", path: at("parked") + "/like", ready: "alike-row"},
		{name: "call-revealed", route: showCall, path: at("secret"), ready: "reveal", do: func(p *browsertest.Page) {
			p.Click("reveal")
			p.WaitText("secrets", "logged")
		}},
		{name: "call-json", route: showCall, path: at("suspicious") + "?view=json", ready: "decide"},
		{name: "call-raw", route: showCall, path: at("suspicious") + "?view=raw", ready: "decide"},
		{name: "call-long-full", route: showCall, path: at("long") + "?full=1", ready: "decide"},
		{name: "call-for-operator", route: showCall, path: at("parked"), who: "olga", ready: "no-actions"},
		{name: "call-cancel", route: showCall, path: at("parked"), who: "olga", ready: "cancel", do: func(p *browsertest.Page) {
			p.Click("cancel")
			p.Wait("really-cancel")
		}},
		{name: "call-question", route: showCall, path: at("executing"), ready: "decide-question"},
		{name: "call-resolve", route: showCall, path: at("unknown"), ready: "resolve"},
		{name: "calls", route: "GET /calls", path: "/calls", ready: "log"},
		{name: "calls-filtered", route: "GET /calls", path: "/calls?status=cancelled", ready: "log"},
		{name: "calls-none", route: "GET /calls", path: "/calls?status=approved", ready: "log"},
		{name: "insights", route: "GET /insights", path: "/insights", ready: "tiles"},
		{name: "insights-tools", route: "GET /insights/tools", path: "/insights/tools?sort=errors", ready: "tools"},
		{name: "insights-numbers", route: "GET /insights", path: "/insights?range=30d", ready: "tiles", do: func(p *browsertest.Page) {
			p.ClickOn("[data-testid=chart-outcomes] summary")
			p.ClickOn("[data-testid=chart-tools] summary")
		}},
		{name: "insights-for-reviewer", route: "GET /insights", path: "/insights?range=24h", who: "jonas", ready: "tiles"},
		{name: "insights-none", route: "GET /insights", path: "/insights?from=2026-01-01&to=2026-01-02", ready: "empty"},
		{name: "insights-wrong", route: "GET /insights", path: "/insights?from=2026-01-02&to=2026-01-01&skill=nothing", ready: "errors", said: true},
		{name: "skills", route: "GET /skills", path: "/skills", ready: "skills"},
		{name: "skill", route: "GET /skills/{id}", path: "/skills/" + h.skill("ledger").ID.String(), ready: "skill"},
		{name: "skill-connect", route: "GET /skills/{id}", path: "/skills/" + h.skill("customers").ID.String(), ready: "skill"},
		{name: "skill-leave", route: "GET /skills/{id}", path: "/skills/" + h.skill("customers").ID.String(), ready: "connect", do: func(p *browsertest.Page) {
			p.Click("connect")
			p.Wait("continue")
		}},
		{name: "connections", route: "GET /connections", path: "/connections", ready: "connections"},
		{name: "connection", route: "GET /connections/{id}", path: h.connection, ready: "connection"},
		{name: "connection-disconnect", route: "GET /connections/{id}", path: h.connection, ready: "disconnect", do: func(p *browsertest.Page) {
			p.Click("disconnect")
			p.Wait("confirm-disconnect")
		}},
		{name: "settings", route: "GET /settings", path: "/settings"},
		{name: "holds", route: "GET /settings/holds", path: "/settings/holds"},
		{name: "guards", route: "GET /guards", path: "/guards", ready: "guard"},
		{name: "teams", route: "GET /teams", path: "/teams", ready: "members"},
		{name: "teams-for-reviewer", route: "GET /teams", path: "/teams", who: "jonas", ready: "members"},
		{name: "conversations", route: "GET /conversations", path: "/conversations"},
		{name: "conversation", route: "GET /conversations/{id}", path: "/conversations/" + h.conversationOf("parked").String()},
		{name: "talk-new", route: "GET /conversations/new", path: "/conversations/new?agent=reception", ready: "start-form"},
		{name: "talk-draft", route: showTalk, path: talk("draft"), ready: "draft"},
		{name: "talk-waiting", route: showTalk, path: talk("waiting"), ready: "pending"},
		{name: "talk-told", route: showTalk, path: talk("idle"), ready: "told", do: func(p *browsertest.Page) {
			p.ClickOn("[data-testid=told] summary")
		}},
		{name: "talk-idle", route: showTalk, path: talk("idle"), ready: "say"},
		{name: "talk-ended", route: showTalk, path: talk("ended"), ready: "news"},
		{name: "talk-hostile", route: showTalk, path: talk("hostile"), ready: "say"},
		{name: "talk-looked-at", route: showTalk, path: talk("waiting"), who: "jonas", ready: "read-only"},
		{name: "talk-not-sent", route: showTalk, path: talk("idle"), ready: "say", said: true, do: func(p *browsertest.Page) {
			p.Type("message", " ")
			p.Click("send")
			p.Wait("form-error")
		}},
		{name: "talk-close", route: showTalk, path: talk("idle"), ready: "close", do: func(p *browsertest.Page) {
			p.Click("close")
			p.Wait("confirm-close")
		}},
		{name: "call-led", route: showCall, path: at("led"), who: "jonas", ready: "led"},
		{name: "audit", route: "GET /audit", path: "/audit"},
		{name: "audit-filters", route: "GET /audit", path: "/audit", ready: "more-criteria", do: func(p *browsertest.Page) { p.Click("more-criteria") }},
		{name: "members", route: "GET /members", path: "/members"},
		{name: "member", route: "GET /members/{id}", path: "/members/" + h.people["ida"].String()},
		{name: "import-new", route: "GET /imports/new", path: "/imports/new", ready: "import-form"},
		{name: "import-operations", route: "GET /imports/{id}", path: h.draft, ready: "import", do: func(p *browsertest.Page) {
			p.ClickOn("[data-testid=operation] summary")
		}},
		{name: "import-problems", route: "GET /imports/{id}", path: h.wrongDraft, ready: "import", said: true, do: func(p *browsertest.Page) {
			browsertest.Eval[string](p, `document.querySelector("[name=which]").value = "chosen"`)
			p.Click("next")
			p.Wait("problems")
		}},
		{name: "import-credentials", route: "GET /imports/{id}/credentials", path: h.draft + "/credentials", ready: "credentials-form"},
		{name: "import-try", route: "GET /imports/{id}/try", path: h.draft + "/try?tool=listItems", ready: "trial-form"},
		{name: "import-tried", route: "GET /imports/{id}/try", path: h.draft + "/try?tool=listItems", ready: "trial-form", do: func(p *browsertest.Page) {
			p.Click("try")
			p.Wait("answer")
		}},
		{name: "skill-api", route: "GET /skills/{id}", path: "/skills/" + h.skill("shop").ID.String(), ready: "skill"},
		{name: "skill-api-edit", route: "GET /skills/{id}/edit", path: "/skills/" + h.skill("shop").ID.String() + "/edit"},
		{name: "skill-new", route: "GET /skills/new", path: "/skills/new"},
		{name: "skill-edit", route: "GET /skills/{id}/edit", path: "/skills/" + h.skill("ledger").ID.String() + "/edit"},
		{name: "skill-delete", route: "GET /skills/{id}/delete", path: "/skills/" + h.skill("ledger").ID.String() + "/delete"},
		{name: "skill-tool", route: "GET /skills/{id}/tools", path: h.toolPath()},
		{name: "agents", route: "GET /agents", path: "/agents"},
		{name: "agent-new", route: "GET /agents/new", path: "/agents/new"},
		{name: "agent", route: "GET /agents/{id}", path: h.agentPath()},
		{name: "agent-edit", route: "GET /agents/{id}/edit", path: h.agentPath() + "/edit"},
		{name: "agent-delete", route: "GET /agents/{id}/delete", path: h.agentPath() + "/delete"},
		{name: "callback-new", route: "GET /agents/{id}/callbacks", path: h.agentPath() + "/callbacks"},
		{name: "callback", route: "GET /agents/{id}/callbacks/{callback}", path: h.agentPath() + "/callbacks/workflow"},
		{name: "agent-assign", route: "GET /agents/{id}/assign", path: h.agentPath() + "/assign?skill=ledger"},
		{name: "rules", route: "GET /rules", path: "/rules", ready: "rule-row"},
		{name: "rules-for-reviewer", route: "GET /rules", path: "/rules", who: "jonas", ready: "rule-row"},
		{name: "rule", route: "GET /rules/named/{name}", path: "/rules/named/large-payments", ready: "version"},
		{name: "rule-new", route: "GET /rules/new", path: "/rules/new", ready: "rule-form"},
		{name: "rule-edit", route: "GET /rules/named/{name}/edit", path: "/rules/named/large-payments/edit", ready: "rule-form"},
		{name: "rule-problem", route: "GET /rules/named/{name}/edit", path: "/rules/named/large-payments/edit", ready: "rule-form", said: true, do: func(p *browsertest.Page) {
			browsertest.Eval[string](p, `document.querySelector("#f-when").value = "args.curency == 'GBP'"`)
			p.Click("send")
			p.Wait("problems")
		}},
		{name: "policies", route: "GET /policies", path: "/policies", ready: "policy-row"},
		{name: "policies-for-reviewer", route: "GET /policies", path: "/policies", who: "jonas", ready: "policy-row"},
		{name: "policy", route: "GET /policies/named/{name}", path: "/policies/named/sending", ready: "version"},
		{name: "policy-new", route: "GET /policies/new", path: "/policies/new", ready: "policy-form"},
		{name: "policy-edit", route: "GET /policies/named/{name}/edit", path: "/policies/named/sending/edit", ready: "policy-form"},
		{name: "policy-problem", route: "GET /policies/named/{name}/edit", path: "/policies/named/sending/edit", ready: "policy-form", said: true, do: func(p *browsertest.Page) {
			browsertest.Eval[string](p, `document.querySelector("#f-any").value = "two of finance"`)
			p.Click("send")
			p.Wait("problems")
		}},
		{name: "call-votes", route: showCall, path: at("votes"), ready: "votes"},
		{name: "call-voted", route: showCall, path: at("votes"), who: "jonas", ready: "take-back"},
		{name: "call-glass-open", route: showCall, path: at("votes"), ready: "break-glass", do: func(p *browsertest.Page) {
			p.ClickOn("[data-testid=break-glass] summary")
		}},
		{name: "call-glass", route: showCall, path: at("glass"), ready: "review-glass"},
		{name: "call-glass-own", route: showCall, path: at("glass"), who: "jonas", ready: "own-glass"},
		{name: "grant-new", route: "GET /calls/{id}/grant", path: at("parked") + "/grant", ready: "grant-form"},
		{name: "grants", route: "GET /grants", path: "/grants", ready: "grant-row"},
		{name: "grants-for-reviewer", route: "GET /grants", path: "/grants?all=1", who: "jonas", ready: "grant-row"},
		{name: "plans", route: "GET /plans", path: "/plans", ready: "plan-row"},
		{name: "plan", route: "GET /plans/{id}", path: "/plans/" + h.plan.String(), who: "jonas", ready: "plan"},
		{name: "grant-suggestions", route: "GET /grants/suggestions", path: "/grants/suggestions", ready: "suggestions"},
		{name: "grant", route: "GET /grants/{id}", path: "/grants/" + h.grant.String(), ready: "grant"},
		{name: "rule-replay", route: "GET /rules/named/{name}/edit", path: "/rules/named/large-payments/edit", ready: "rule-form", do: func(p *browsertest.Page) {
			browsertest.Eval[string](p, `document.querySelector("#f-effect").value = "deny"`)
			p.Click("replay")
			p.Wait("replay-result")
		}},
		{name: "changes", route: "GET /changes", path: "/changes", ready: "change-row"},
		{name: "change", route: "GET /changes/{id}", path: "/changes/" + h.change.String(), ready: "decision"},
		{name: "not-found", route: showCall, path: "/calls/" + uuid.Nil.String(), ready: "message", said: true},
		{name: "sign-in", path: "/sign-in", who: "nobody", ready: "token"},
		{name: "sign-in-link", path: h.createLink("newcomer", identity.Reviewer), who: "nobody", ready: "sign-in-link"},
		{name: "sign-in-error", path: "/sign-in", who: "nobody", ready: "token", said: true, do: func(p *browsertest.Page) {
			p.Type("token", "hp_wrong")
			p.Click("sign-in-token")
			p.Wait("sign-in-error")
		}},
		{name: "search", route: "GET /search", path: "/search?q=s", ready: "search"},
		{name: "palette", route: showQueue, path: "/", ready: "row", do: func(p *browsertest.Page) {
			p.PressCtrlK()
			p.Wait("hit")
		}},
		{name: "keys", route: showQueue, path: "/", ready: "row", do: func(p *browsertest.Page) {
			p.Press("?")
			p.Wait("keys")
		}},
	}
	list = append(list,
		scene{name: "call-proposed-own", route: showCall, path: at("proposed"), who: "jonas", ready: "own-edit"},
		scene{name: "call-proposed-restored", route: showCall, path: at("proposed"), ready: "decide", do: func(p *browsertest.Page) {
			p.WaitFor("buttons to work", armed)
			p.Click("restore")
			p.Wait("edited")
		}})
	for _, state := range []string{"parked", "destructive", "high risk", "proposed", "secret", "suspicious", "long", "other tool", "shell", "file edit", "new file", "web page"} {
		list = append(list, scene{name: "call-" + strings.ReplaceAll(state, " ", "-"), route: showCall, path: at(state), ready: "decide"})
	}
	for _, state := range []string{
		"done", "rejected", "edited", "tool error", "refused", "broken", "not MCP", "unknown", "resolved", "expired",
		"cancelled", "invalid", "denied", "automatic", "executing", "needs connection",
	} {
		list = append(list, scene{name: "call-" + strings.ReplaceAll(strings.ToLower(state), " ", "-"), route: showCall, path: at(state), who: "jonas", ready: "call"})
	}
	return list
}

func openEditor(p *browsertest.Page) {
	p.WaitFor("buttons to work", armed)
	p.Click("edit-open")
	p.Wait("editor")
	p.WaitFor("buttons to work", armed)
}

// conversationOf returns the conversation of a call in a state.
func (h *house) conversationOf(state string) uuid.UUID {
	h.t.Helper()
	c, err := h.world.calls.Get(h.t.Context(), call.Viewer{}, h.calls[state])
	check(h.t, err)
	return c.ConversationID
}

// toolPath returns the page of the tool with a changed definition.
func (h *house) toolPath() string {
	h.t.Helper()
	c, err := h.world.calls.Get(h.t.Context(), call.Viewer{}, h.calls["changed"])
	check(h.t, err)
	return "/skills/" + c.SkillID.String() + "/tools?tool=" + url.QueryEscape(c.Tool)
}

// agentPath returns the page of the agent with the first name.
func (h *house) agentPath() string {
	return "/agents/" + h.agents[slices.Min(slices.Collect(maps.Keys(h.agents)))].ID.String()
}

// noScene lists routes that are not pages.
func noScene() []string {
	return []string{
		"GET /calls/{id}/arguments", "GET /calls/{id}/result", "GET /calls/{id}/files/{file}", "GET /oauth/callback", "GET /calls/export", "GET /conversations/{id}/entries/{seq}", "GET /audit/export",
		// These redirect to the page that has the form.
		"GET /settings/push/{form...}", "GET /settings/holds/{form...}", "GET /settings/webhooks", "GET /settings/webhooks/{form...}", "GET /queue/{form...}", "GET /next", "GET /rules/{form...}", "GET /policies/{form...}", "GET /teams/{form...}",
	}
}

func TestEveryPageHasAScene(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 0, asUsual)
	seen := map[string]bool{}
	for _, pattern := range noScene() {
		seen[pattern] = true
	}
	names := map[string]bool{}
	for _, s := range h.scenes() {
		if names[s.name] {
			t.Errorf("two scenes are called %s", s.name)
		}
		names[s.name], seen[s.route] = true, true
		a := h.visitorFor(s.who).get(s.path)
		if a.status != http.StatusOK && !s.said || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s", s.name, a.status, a.header.Get("Content-Type"))
		}
	}
	for _, route := range h.ui.Routes() {
		if method, _, _ := strings.Cut(route.Pattern, " "); method == http.MethodGet && !seen[route.Pattern] {
			t.Errorf("%s: no scene shows it; add one to scenes(), so that it is looked at", route.Pattern)
		}
	}
}

// visitorFor returns a visitor of a scene.
func (h *house) visitorFor(who string) *visitor {
	h.t.Helper()
	if v, ok := h.visitors[who]; ok {
		return v
	}
	switch who {
	case "", "maren":
		h.visitors[who] = h.maren
	case "jonas":
		h.visitors[who] = h.withToken(jonas, identity.Reviewer)
	case "olga":
		h.visitors[who] = h.withToken("Olga Reyes", identity.Operator)
	case "nobody":
		h.visitors[who] = h.visitor()
	default:
		h.t.Fatalf("nobody is called %s", who)
	}
	return h.visitors[who]
}
