package ui_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// words returns text from outside: the usual one, or a replacement for the field.
type words func(what, usual string) string

func asUsual(_, usual string) string { return usual }

// house is a world with at least one object of each kind: the gate of a small bindery, Alder & Finch, with a call in
// each state. Tests of all pages and the documentation's pictures use it.
type house struct {
	*world
	say    words
	calls  map[string]uuid.UUID // by state
	people map[string]uuid.UUID // by lower-case first name
	agents map[string]*agent.Agent
	// conversations run by Holdpoint itself, by state
	conversations map[string]uuid.UUID
	release       chan struct{} // ends the running call
	opened        time.Time     // when the house was complete, by its clocks

	maren      *visitor
	visitors   map[string]*visitor
	connection string    // path of a connection
	change     uuid.UUID // that waits for a second operator
	draft      string    // path of a draft of an HTTP API
	wrongDraft string    // the same, with nothing chosen
	grant      uuid.UUID
	plan       uuid.UUID
}

// The people of the house.
const (
	maren = "Maren Holt"     // reviewer and operator, who views the pages
	jonas = "Jonas Weil"     // reviewer
	ida   = "Ida Brandt"     // principal of agents
	theo  = "Theo Lindqvist" // principal of agents
)

// newHouse takes a second or two, so share the house within a test. Its clocks are ahead by shift.
func newHouse(t *testing.T, shift time.Duration, say words) *house {
	t.Helper()
	h := &house{
		world: bareWorld(t, nil, shift, nil), say: say, release: make(chan struct{}),
		visitors: map[string]*visitor{}, calls: map[string]uuid.UUID{}, people: map[string]uuid.UUID{}, agents: map[string]*agent.Agent{},
		conversations: map[string]uuid.UUID{},
	}
	h.opened = h.now()
	t.Cleanup(func() { close(h.release) })
	h.setClockBack(26 * time.Hour)
	for _, name := range []string{maren, jonas, ida, theo} {
		first, _, _ := strings.Cut(strings.ToLower(name), " ")
		_, _, err := h.world.people.CreateToken(t.Context(), uuid.Nil, name, []identity.Role{identity.Reviewer}, nil)
		check(t, err)
		h.people[first] = h.personCalled(name)
		h.db.Exec(`UPDATE people SET name = $2 WHERE id = $1`, h.people[first], say("person", name))
	}
	h.world.people.Invalidate()
	h.source.own = h.tools()
	h.source.Answer(h.reply)
	h.source.before = h.before
	h.settle()
	h.startDashboard(slog.New(slog.DiscardHandler), "")
	h.connect()
	h.past()
	h.converses()
	h.present()
	h.tellWorkflow()
	h.away()
	h.setClockBack(0)
	h.draftTalk()
	h.draftAPI()
	h.change = uuid.New()
	h.db.Exec(`INSERT INTO changes (id, kind, subject, name, action, fields, proposed_by, expires_at) VALUES ($1, 'skill', $2, 'ledger', 'update', $3, $4, holdpoint_now() + interval '3 days')`,
		h.change, h.skill("ledger").ID, []dualcontrol.Field{{Field: "auto_approve", Old: "false", New: "true"}, {Field: "tools.pay_out", Old: "{risk: high}"}}, h.people["theo"])
	h.db.Exec(`UPDATE skills SET listed_at = holdpoint_now() - interval '4 minutes'`)
	h.world.agents.Invalidate()
	h.guard()
	h.code()
	return h
}

// guard registers two guards: one holds, the other one does not.
func (h *house) guard() {
	h.t.Helper()
	report := guarded.Report{
		WatchKey: strings.Repeat("k", 40), Host: "claude-code", Machine: h.say("machine", "maren-laptop"), Scope: "machine", Version: "1.4.0",
		Files: []string{"/etc/claude-code/managed-settings.json"}, Every: 15 * time.Second,
	}
	check(h.t, h.guards.Report(h.t.Context(), h.agents["site-ops"].ID, uuid.New(), report))
	report.Host, report.Files, report.Scope = "gemini", []string{"/home/theo/.gemini/settings.json"}, "user"
	report.Problems = []string{"/home/theo/.gemini/settings.json: " + h.say("problem", "the hook is gone")}
	broken := uuid.New()
	check(h.t, h.guards.Report(h.t.Context(), h.agents["support"].ID, broken, report))
	check(h.t, h.guards.NoteBypass(h.t.Context(), h.agents["support"].ID, broken, h.say("tool", "run_shell_command")))
}

// code makes the calls of a coding agent, which executes them itself.
func (h *house) code() {
	h.t.Helper()
	wait := agent.Duration(2 * time.Hour)
	_, err := h.world.agents.Apply(h.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{{Name: "laptop", Transport: tool.Gate, Host: "claude-code", Team: "platform", ApprovalTimeout: &wait}},
		Agents: []agent.AgentSpec{{Name: "shop-coder", Team: "platform", Skills: assigned("laptop")}},
	}, false)
	check(h.t, err)
	h.agents["shop-coder"], err = h.world.agents.AgentByName(h.t.Context(), "shop-coder")
	check(h.t, err)
	const folder = "/home/theo/shop"
	path := folder + "/" + h.say("path", "prices.go")
	before := "package shop\n\n// Net is the price of a box.\nfunc Net(boxes int) int {\n\treturn boxes * 1280\n}\n"
	for _, ask := range []struct {
		state, tool, arguments string
		binding                call.GateBinding
	}{
		{"shell", "Bash", object("command", h.say("argument", "npm publish --access public && git push --tags"), "description", h.say("argument", "Publishes the package")), call.GateBinding{}},
		{
			"file edit", "Edit", object("file_path", path, "old_string", "\treturn boxes * 1280\n", "new_string", "\tif boxes > 100 {\n\t\treturn boxes * 1190\n\t}\n\treturn boxes * 1280\n"),
			call.GateBinding{Paths: []string{path}, File: &call.GateFile{Path: path, Exists: true, Size: int64(len(before)), Text: &before}},
		},
		{
			"new file", "Write", object("file_path", folder+"/NOTES.md", "content", h.say("argument", "# Notes\n\nAsk Ida about the new prices.\n")),
			call.GateBinding{Paths: []string{folder + "/NOTES.md"}, File: &call.GateFile{Path: folder + "/NOTES.md"}},
		},
		{"web page", "WebFetch", object("url", "https://kestrel-paper.example/prices?year=2026", "prompt", h.say("argument", "What does a box cost?")), call.GateBinding{}},
	} {
		entry, err := h.catalog.FindGated(h.t.Context(), h.agents["shop-coder"].ID, "laptop", ask.tool)
		check(h.t, err)
		arguments, err := call.CleanArguments([]byte(ask.arguments))
		check(h.t, err)
		ask.binding.Directory = folder
		ticket, err := h.world.calls.Submit(h.t.Context(), call.Submission{
			Agent: h.agents["shop-coder"], PrincipalID: h.people["theo"], Entry: entry, Arguments: arguments, Gate: &call.GateRequest{
				GateBinding: ask.binding, GateOrigin: call.GateOrigin{Session: "5b0c7f0e", Version: "2.1.330"},
			},
		})
		check(h.t, err)
		h.calls[ask.state] = ticket.ID
	}
}

// setClockBack sets the clock back to a past event. It keeps running, so quick steps share a second in each house.
func (h *house) setClockBack(d time.Duration) {
	h.t.Helper()
	h.db.Exec(`UPDATE clock_offset SET value = $1 - clock_timestamp()`, h.opened.Add(-d))
}

// settle registers skills and agents.
func (h *house) settle() {
	h.t.Helper()
	url := func(name string) string { return "https://tools.alder-finch.example/" + name }
	wait, long := agent.Duration(30*time.Minute), agent.Duration(time.Hour)
	skill := func(name string, s agent.SkillSpec) agent.SkillSpec {
		s.Name, s.Transport, s.URL = name, tool.HTTP, url(name)
		if s.ApprovalTimeout == nil {
			s.ApprovalTimeout = &wait
		}
		return s
	}
	_, err := h.world.agents.Apply(h.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			skill("ledger", agent.SkillSpec{Team: "finance", Tools: map[string]agent.ToolSettings{"pay_out": {Risk: agent.RiskHigh}}}),
			skill("mail", agent.SkillSpec{ApprovalTimeout: &long}),
			skill("servers", agent.SkillSpec{Team: "platform", EscalateTo: "finance", ApprovalTimeout: &long, Tools: map[string]agent.ToolSettings{"restart_service": {Idempotent: true}}}),
			skill("files", agent.SkillSpec{}),
			skill("archive", agent.SkillSpec{}),
			skill("calendar", agent.SkillSpec{AutoApprove: true}),
			{Name: "shop", Transport: tool.OpenAPI, ApprovalTimeout: &long, APISpec: agent.APISpec{
				BaseURL: url("shop"), Spec: url("shop/openapi.json"), Preview: true, Auth: &agent.APIAuthSpec{Type: tool.APIBearer, Secret: "shop-secret"},
			}},
		},
		Agents: []agent.AgentSpec{
			{Name: "invoices", Team: "finance", Instructions: h.say("instructions", "You file the invoices that suppliers send."), Skills: assigned("ledger", "mail", "files", "calendar")},
			{Name: "support", Instructions: h.say("instructions", "You answer customers."), Skills: assigned("mail", "files", "calendar", "archive")},
			{Name: "site-ops", Team: "platform", Instructions: h.say("instructions", "You look after our servers."), Skills: assigned("servers", "files")},
			{
				Name: "reception", Instructions: h.say("instructions", "You help at the reception."), Skills: assigned("mail", "files", "calendar"),
				Model: &agent.ModelSpec{Provider: agent.ProviderScripted, Name: "quill", InputPrice: 3, OutputPrice: 15},
			},
		},
	}, false)
	check(h.t, err)
	h.setRules()
	h.setPolicies()
	for _, name := range []string{"invoices", "support", "site-ops", "reception"} {
		h.agents[name], err = h.world.agents.AgentByName(h.t.Context(), name)
		check(h.t, err)
	}
}

// setRules makes two rules in shadow mode. The second one does not fit the tool that it is about.
func (h *house) setRules() {
	h.t.Helper()
	payments := rule.Spec{Name: "large-payments", Skills: []string{"ledger"}, Tools: []string{"post_payment"}, When: `args.currency == "GBP" && size(args.amount) > 6`, Effect: rule.Park, Mode: rule.Off}
	boxes := rule.Spec{Name: "old-boxes", Agents: []string{"support"}, Skills: []string{"archive"}, When: `args.label.startsWith("19")`, Effect: rule.Deny, Mode: rule.Shadow, Message: clip(h.say("message", "Boxes from before 2000 stay where they are."), rule.MaxMessage)}
	shadow := payments
	shadow.Mode, shadow.When = rule.Shadow, "args.currency == \"GBP\" &&\n  size(args.amount) > 6 // 1000.00 and more"
	for _, spec := range []rule.Spec{payments, shadow, boxes} {
		_, err := h.world.agents.SetRule(h.t.Context(), audit.Person(h.people["maren"]), spec, nil)
		check(h.t, err)
	}
}

// setPolicies makes two policies. A rule asks for the first one; the second one cannot be met.
func (h *house) setPolicies() {
	h.t.Helper()
	sending := policy.Spec{Name: "sending", Any: []policy.Alternative{{All: []policy.Line{{Count: 2}}}, {All: []policy.Line{{Count: 1, People: []string{ida}}}}}}
	alone := sending
	alone.BreakGlass = true
	board := policy.Spec{Name: "board", Any: []policy.Alternative{{All: []policy.Line{{Count: 3, Teams: []string{clip(h.say("team", "directors"), 100)}}}}}}
	for _, spec := range []policy.Spec{sending, alone, board} {
		_, err := h.world.agents.SetPolicy(h.t.Context(), audit.Person(h.people["maren"]), spec, nil)
		check(h.t, err)
	}
	_, err := h.world.agents.SetRule(h.t.Context(), audit.Person(h.people["maren"]), rule.Spec{
		Name: "price-lists", Skills: []string{"mail"}, Tools: []string{"send_message"}, When: `args.subject.startsWith("Price list")`, Effect: rule.Park, Policy: "sending",
	}, nil)
	check(h.t, err)
}

// vote approves a call with a policy as Jonas, alone with a reason, or as one of several.
func (h *house) vote(id uuid.UUID, reason string) {
	h.t.Helper()
	waiting, err := h.world.calls.GetApproval(h.t.Context(), id)
	check(h.t, err)
	_, err = h.world.calls.Decide(h.t.Context(), call.Decision{
		CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: h.people["jonas"], Note: reason, BreakGlass: reason != "",
	})
	check(h.t, err)
}

// away makes an absence with a substitute, and a delegation.
func (h *house) away() {
	h.t.Helper()
	ends := h.opened.Add(48 * time.Hour)
	_, err := h.world.people.AddAbsence(h.t.Context(), audit.Person(h.people["theo"]), identity.NewAbsence{Person: h.people["theo"], Substitute: h.people["ida"], Ends: ends})
	check(h.t, err)
	_, err = h.world.people.Delegate(h.t.Context(), audit.Person(h.people["maren"]), identity.NewDelegation{Team: h.say("team", "night shift"), Person: h.people["ida"], Ends: ends})
	check(h.t, err)
}

// clip returns the first n characters of a text.
func clip(text string, n int) string {
	letters := []rune(text)
	return string(letters[:min(n, len(letters))])
}

func assigned(skills ...string) *[]agent.AssignmentSpec {
	list := make([]agent.AssignmentSpec, len(skills))
	for i, name := range skills {
		list[i].Skill = name
	}
	return &list
}

// connect connects the drive for all, as Maren. The customers' file needs personal connections, and Theo has none.
func (h *house) connect() {
	h.t.Helper()
	as := newAuthServer(h.t)
	as.scopes = []string{"drive.read", h.say("scope", "drive.write")}
	wait := agent.Duration(2 * time.Hour)
	_, err := h.world.agents.Apply(h.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			{Name: "drive", Transport: tool.HTTP, URL: as.url + "/mcp", ApprovalTimeout: &wait},
			{Name: "customers", Transport: tool.HTTP, URL: as.url + "/mcp", ApprovalTimeout: &wait, Connection: agent.ConnectionPerUser},
		},
		Agents: []agent.AgentSpec{{Name: "support", Skills: assigned("mail", "files", "calendar", "archive", "shop", "drive", "customers")}},
	}, false)
	check(h.t, err)
	h.maren = h.withToken(maren, identity.Reviewer, identity.Operator)
	back := as.allowAccess(h.t, h.maren.begin(h.skill("drive"), nil))
	h.connection, _, _ = strings.Cut(h.maren.get(back).header.Get("Location"), "?")
	h.refuseRequest(h.skill("customers"), h.people["theo"])
	h.setClockBack(21*time.Minute + 26*time.Second)
	h.calls["needs connection"] = h.submitAs("support", "theo", "customers__update", object("customer", "Riverside Books", "phone", "0113 496 0018"))
}

// withToken returns a person of the house, signed in with a personal token.
func (h *house) withToken(name string, roles ...identity.Role) *visitor {
	h.t.Helper()
	_, token, err := h.world.people.CreateToken(h.t.Context(), uuid.Nil, name, roles, nil)
	check(h.t, err)
	v := h.visitor()
	if a := v.post("/sign-in", url.Values{"token": {token}}); a.status != http.StatusSeeOther {
		h.t.Fatalf("sign in as %s: %d %s", name, a.status, a.text())
	}
	return v
}

// submitAs submits a call of an agent, with or without a principal.
func (h *house) submitAs(agentName, person, exposed, arguments string) uuid.UUID {
	h.t.Helper()
	h.agent = h.agents[agentName]
	return h.submit(h.people[person], exposed, arguments)
}

// decide decides a call as Jonas and waits until it ends.
func (h *house) decide(id uuid.UUID, approve bool, note, arguments string) call.Call {
	h.t.Helper()
	waiting, err := h.world.calls.GetApproval(h.t.Context(), id)
	check(h.t, err)
	d := call.Decision{CallID: id, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: note, By: h.people["jonas"]}
	if arguments != "" {
		d.Arguments = json.RawMessage(arguments)
	}
	_, err = h.world.calls.Decide(h.t.Context(), d)
	check(h.t, err)
	return h.waitForEnd(id)
}

// propose edits a call as Jonas. The edit waits for a second reviewer.
func (h *house) propose(id uuid.UUID, arguments string) {
	h.t.Helper()
	waiting, err := h.world.calls.GetApproval(h.t.Context(), id)
	check(h.t, err)
	_, err = h.world.calls.Decide(h.t.Context(), call.Decision{
		CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: h.people["jonas"], Arguments: json.RawMessage(arguments),
	})
	check(h.t, err)
}

// past makes the calls that have ended, oldest first.
func (h *house) past() {
	h.t.Helper()
	payment := func(to, amount, reference string) string {
		return object("to", h.say("argument", to), "iban", "GB33BUKB20201555555555", "amount", amount, "currency", "GBP", "reference", reference)
	}
	for i, amount := range []string{"212.00", "318.40", "187.25"} { // what is usual
		h.setClockBack(25*time.Hour + 50*time.Minute - time.Duration(i)*9*time.Minute)
		h.decide(h.submitAs("invoices", "ida", "ledger__post_payment", object("to", h.say("argument", "Kestrel Paper Ltd"),
			"iban", "GB36BARC20120530093459", "amount", amount, "currency", "GBP", "reference", fmt.Sprintf("INV-%d", 2058+i))), true, "", "")
	}
	h.setClockBack(25*time.Hour + 12*time.Minute)
	h.calls["done"] = h.submitAs("invoices", "ida", "ledger__post_payment", payment("Marlow Print Works", "418.00", "INV-2066"))
	h.decide(h.calls["done"], true, h.say("note", "Matches the order."), "")
	h.setClockBack(23*time.Hour + 41*time.Minute)
	h.calls["rejected"] = h.submitAs("invoices", "ida", "ledger__post_payment", payment("Kestrel Paper Ltd", "12845.00", "INV-2070"))
	h.decide(h.calls["rejected"], false, h.say("reason", "The order says 1,284.50. Ask Kestrel for a corrected invoice."), "")
	h.setClockBack(22*time.Hour + 4*time.Minute)
	h.calls["edited"] = h.submitAs("support", "theo", "mail__send_message", object("to", "ana@riverside-books.example", "subject", h.say("argument", "Your order 3391"), "body", "It ships on Monday."))
	h.decide(h.calls["edited"], true, h.say("note", "Tuesday, after the holiday."),
		object("to", "ana@riverside-books.example", "subject", h.say("argument", "Your order 3391"), "body", "It ships on Tuesday."))
	for i, s := range []struct{ state, file string }{
		{"tool error", "full.csv"},
		{"refused", "refused.csv"},
		{"broken", "broken.csv"},
		{"not MCP", "garbled.csv"},
		{"unknown", "unknown.csv"},
		{"resolved", "resolved.csv"},
	} {
		h.setClockBack(5*time.Hour - time.Duration(i)*27*time.Minute)
		h.calls[s.state] = h.submitAs("support", "theo", "files__save_csv", object("filename", s.file))
		h.decide(h.calls[s.state], true, "", "")
	}
	for _, state := range []string{"unknown", "resolved"} {
		h.db.Exec(`UPDATE calls SET status = 'unknown', code = 'outcome_unknown', failure = NULL, effect = 'possible', result = NULL, message = $2, late = $3 WHERE id = $1`,
			h.calls[state], h.say("message", "the process that sent it stopped"), object("result", h.say("late", "Saved 2 rows")))
	}
	_, err := h.world.calls.Resolve(h.t.Context(), h.calls["resolved"], call.Resolution{Outcome: call.ResolvedFailed, Note: h.say("resolution", "There is no such file on the share."), By: h.people["maren"]})
	check(h.t, err)
	h.setClockBack(2 * time.Hour)
	h.calls["expired"] = h.submitAs("site-ops", "", "servers__restart_service", object("service", "storefront", "host", "web-1"))
	h.db.Exec(`UPDATE approvals SET deadline = holdpoint_now() - interval '1 minute' WHERE call_id = $1`, h.calls["expired"])
	check(h.t, h.world.calls.Expire(h.t.Context(), h.calls["expired"]))
	h.setClockBack(96 * time.Minute)
	h.calls["cancelled"] = h.submitAs("support", "theo", "mail__send_message", object("to", "ben@harbour-press.example", "subject", "Samples", "body", "On their way."))
	_, err = h.world.calls.Cancel(h.t.Context(), call.Viewer{}, h.people["theo"], h.calls["cancelled"])
	check(h.t, err)
	h.setClockBack(81 * time.Minute)
	h.calls["invalid"] = h.submitAs("support", "theo", "mail__send_message", object("subject", h.say("argument", "No address")))
	h.setClockBack(72 * time.Minute)
	h.calls["denied"] = h.submitAs("support", "theo", "archive__put", object("box", "2019"))
	_, err = h.world.agents.Apply(h.t.Context(), audit.System(), agent.Spec{Skills: []agent.SkillSpec{
		{Name: "archive", Transport: tool.HTTP, URL: "https://tools.alder-finch.example/archive/v2"},
	}}, false)
	check(h.t, err)
	h.decide(h.calls["denied"], true, "", "")
	h.setClockBack(58 * time.Minute)
	h.calls["glass"] = h.submitAs("support", "theo", "mail__send_message", object("to", "ben@harbour-press.example", "subject", "Price list, corrected", "body", "See our site."))
	h.vote(h.calls["glass"], h.say("note", "The old prices are online, and Maren is travelling."))
	h.waitForEnd(h.calls["glass"])
	h.calls["automatic"] = h.submitAs("support", "theo", "calendar__find_slot", object("with", "Harbour Press", "minutes", 30))
	h.waitForEnd(h.calls["automatic"])
	h.setClockBack(40 * time.Second)
	h.calls["executing"] = h.submitAs("site-ops", "", "servers__restart_service", object("service", "search", "host", "web-2"))
	waiting, err := h.world.calls.GetApproval(h.t.Context(), h.calls["executing"])
	check(h.t, err)
	_, err = h.world.calls.Decide(h.t.Context(), call.Decision{
		CallID: h.calls["executing"], Approve: true, Digest: waiting.Approval.Digest.String(), By: h.people["jonas"],
	})
	check(h.t, err)
	h.db.Exec(`INSERT INTO call_questions (call_id, number, key, method, params, status, review, timeout_ms, deadline, digest, answer, answered_at)
		VALUES ($1, 1, 'confirm', 'elicitation/create', $2, 'pending', 'answer', 600000, holdpoint_now() + interval '10 minutes', sha256('question'), $3, holdpoint_now())`,
		h.calls["executing"], []byte(object("message", h.say("argument", "Which window may the restart take?"))),
		[]byte(`{"action":"accept","content":`+object("window", h.say("argument", "22:00 to 22:15"), "password", "correct horse")+`}`))
}

// present makes the calls that wait.
func (h *house) present() {
	h.t.Helper()
	h.setClockBack(52*time.Minute + 13*time.Second)
	h.calls["suspicious"] = h.submitAs("support", "theo", "mail__send_message", object(
		"to", "billing@p\u0430ypal.example", "subject", "Refund\u200b", "body", "See invoice\u202efdp.exe and https://\u0430pple.com/pay"))
	for exposed, name := range h.exposed("mail") {
		if name != "send_message" {
			h.calls["other tool"] = h.submitAs("support", "theo", exposed, object("folder", "Inbox"))
		}
	}
	h.setClockBack(48*time.Minute + 5*time.Second)
	h.calls["destructive"] = h.submitAs("site-ops", "", "servers__delete_volume", object("volume", h.say("argument", "data-old"), "host", "web-2"))
	h.setClockBack(17*time.Minute + 12*time.Second)
	h.calls["parked"] = h.submitAs("invoices", "ida", "ledger__post_payment", object(
		"to", h.say("argument", "Kestrel Paper Ltd"), "iban", "GB94BARC10201530093459", "amount", "1284.50", "currency", "GBP", "reference", "INV-2071"))
	granted, err := h.world.calls.Grant(h.t.Context(), h.people["maren"], call.GrantRequest{CallID: h.calls["parked"]})
	check(h.t, err)
	h.grant = granted.ID
	h.plan = h.submitPlan(h.people["ida"], h.say("title", "Pay the printers"), "ledger__post_payment",
		object("to", h.say("argument", "Marlow Print Works"), "iban", "GB33BUKB20201555555555", "amount", "120.00", "currency", "GBP", "reference", "INV-2080"),
		object("to", h.say("argument", "Kestrel Paper Ltd"), "iban", "GB94BARC10201530093459", "amount", "75.20", "currency", "GBP", "reference", "INV-2081")).ID
	for i, amount := range []string{"310.00", "96.40"} {
		h.setClockBack(16*time.Minute - time.Duration(i)*73*time.Second)
		h.submitAs("invoices", "ida", "ledger__post_payment", object(
			"to", h.say("argument", "Marlow Print Works"), "iban", "GB33BUKB20201555555555", "amount", amount, "currency", "GBP", "reference", fmt.Sprintf("INV-%d", 2072+i)))
	}
	h.setClockBack(9*time.Minute + 38*time.Second)
	h.calls["high risk"] = h.submitAs("invoices", "ida", "ledger__pay_out", object("to", "Finch Holdings", "amount", "9000.00", "currency", "GBP"))
	h.setClockBack(8*time.Minute + 17*time.Second)
	h.calls["proposed"] = h.submitAs("invoices", "ida", "ledger__pay_out", object("to", "Harbour Press", "amount", "3900.00", "currency", "GBP", "reference", h.say("argument", "INV-2069")))
	h.propose(h.calls["proposed"], object("to", "Harbour Press", "amount", "390.00", "currency", "GBP", "reference", h.say("argument", "INV-2069")))
	h.calls["votes"] = h.submitAs("support", "theo", "mail__send_message", object("to", "ana@riverside-books.example", "subject", "Price list 2026", "body", h.say("argument", "Ten percent more.")))
	h.vote(h.calls["votes"], "")
	h.setClockBack(7*time.Minute + 21*time.Second)
	h.calls["secret"] = h.submitAs("site-ops", "", "servers__rotate_key", object("service", "storefront", "passphrase", "correct horse battery", "api_token", "tok-93f1"))
	h.setClockBack(5*time.Minute + 3*time.Second)
	h.calls["request"] = h.submitAs("support", "theo", "shop__change_order", object("order", h.say("argument", "A-3391"), "ship_on", "2026-03-17", "note", h.say("argument", "After the holiday")))
	h.setClockBack(3*time.Minute + 44*time.Second)
	h.calls["long"] = h.submitAs("support", "theo", "mail__send_message", object("to", "all@alder-finch.example", "subject", "Opening hours", "body",
		strings.Repeat(h.say("argument", "We are closed on Monday. ")+"\n", 60)))
	h.source.Lock()
	h.source.own["calendar"] = []string{h.slotTool(h.say("changed description", "Finds time for a meeting, and mails its agenda to everybody."))}
	h.source.Unlock()
	calendar := h.skill("calendar")
	h.discovery.ListChanged(calendar.ID)
	h.setClockBack(2*time.Minute + 6*time.Second)
	h.calls["changed"] = h.submitAs("support", "theo", "calendar__find_slot", object("with", "Riverside Books", "minutes", 45))
}

func (h *house) skill(name string) *agent.Skill {
	h.t.Helper()
	s, err := h.world.agents.SkillByName(h.t.Context(), name)
	check(h.t, err)
	return s
}

// object writes pairs of name and value as a JSON object, in order.
func object(pairs ...any) string {
	parts := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		value, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err) // only strings and numbers
		}
		parts = append(parts, fmt.Sprintf("%q:%s", pairs[i], value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// tellWorkflow sends callbacks to another system: one succeeds at once, one at the second attempt, one fails for good.
func (h *house) tellWorkflow() {
	h.t.Helper()
	h.setClockBack(90 * time.Second)
	_, _, err := h.callbacks.Create(h.t.Context(), audit.Person(h.people["maren"]), h.agents["invoices"], callback.NewCallback{
		Name: "workflow", URL: "https://workflow.alder-finch.example/hooks/holdpoint",
	})
	check(h.t, err)
	h.db.Exec(`UPDATE callbacks SET created_at = created_at - interval '25 hours'`)
	for i, m := range []struct {
		kind, call, status, state string
		answers                   []int
	}{
		{"call.finished", "done", "succeeded", "delivered", []int{200}},
		{"call.finished", "rejected", "rejected", "failed", []int{500, 500, 404}},
		{"call.parked", "parked", "parked", "delivered", []int{503, 204}},
	} {
		h.setClockBack(time.Duration(60-20*i) * time.Minute)
		id := uuid.New()
		h.db.Exec(`INSERT INTO callback_deliveries (id, callback_id, type, call_id, status, state, attempts)
			SELECT $1, id, $2, $3, $4, $5, $6 FROM callbacks`, id, m.kind, h.calls[m.call], m.status, m.state, len(m.answers))
		for n, answer := range m.answers {
			h.db.Exec(`INSERT INTO callback_attempts (delivery_id, number, duration_ms, http_status, error)
				VALUES ($1, $2, 84, $3, CASE WHEN $3 > 299 THEN 'answered HTTP ' || $3 END)`, id, n+1, answer)
		}
		h.db.Exec(`UPDATE callbacks SET sent_at = holdpoint_now()`)
	}
}
