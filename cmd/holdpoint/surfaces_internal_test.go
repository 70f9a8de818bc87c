package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// surface is a way for people to use Holdpoint. A method that changes something returns "", or how the surface refuses it.
type surface interface { //nolint:interfacebloat // everything that the statements take
	// setRule, setPolicy, setSkill and setTool create or change something as the operator olga.
	setRule(spec rule.Spec) string
	setPolicy(spec policy.Spec) string
	setSkill(skill, setting, value string) string
	setTool(skill, tool, setting, value string) string

	approve(person string, id uuid.UUID, how vote) string
	reject(person string, id uuid.UUID) string
	reviewGlass(person string, id uuid.UUID) string

	// makeGrant makes a grant from a call, which allows other values of the argument v.
	makeGrant(person string, id uuid.UUID, wanted wantedGrant) (grant, refusal string)
	confirmGrant(person, grant string) string
	revokeGrant(person, grant string) string

	// approvePlan leaves out the calls that are struck, which are counted from 0.
	approvePlan(person string, plan uuid.UUID, struck ...int) string
	rejectPlan(person string, plan uuid.UUID) string
	revokePlan(person string, plan uuid.UUID) string
	readPlan(person string, plan uuid.UUID) string

	delegate(person, team, to string) string
	leave(person, substitute string) string
	limitReviewer(person, skill string) string
	giveRole(person string, role identity.Role) string

	// setCalendar sets the on-call calendar of a team, which is fetched at once. readTeams shows who is a member and who is on call.
	setCalendar(team, address string) string
	readTeams(person string) string

	// findChange returns the id of the newest change that waits for a second operator, or "".
	findChange(person string) string
	approveChange(person, change string) string

	// read returns a call as the surface shows it.
	read(person string, id uuid.UUID) outcome
}

// vote is how a person approves a call. The zero value approves it as it is.
type vote struct {
	arguments string // other ones
	alone     string // the reason for breaking the glass
}

// wantedGrant is a grant that a person makes from a call. The zero value allows exactly the same arguments.
type wantedGrant struct {
	kind   grant.Kind
	values string // as a person types them
	uses   string
	time   string
}

// outcome is a call as a surface shows it.
type outcome struct {
	status string // with the reason, if it is parked: "parked gated"
	text   string // all that the surface says about the call
}

// bench is a server with people, and a skill server whose tools take any arguments of a payment.
type bench struct {
	*testing.T
	s       *server
	db      *postgres.DB
	address string
	skills  *mcp.Server
	skillAt string
	tokens  map[string]string // by person
	ids     map[string]uuid.UUID

	browsers map[string]*http.Client   // by person
	declared map[string]map[string]any // skills, as in holdpoint.yaml
}

// benchPeople are people with their roles and teams. The teams of the name are those after the role.
var benchPeople = map[string][]string{
	"olga": {"operator"}, "otto": {"operator"},
	"ana": {"reviewer", "finance"}, "ben": {"reviewer", "finance"}, "fay": {"reviewer", "finance"}, "kai": {"reviewer", "compliance"},
	"duo": {"reviewer", "finance", "compliance"}, "cfo": {"reviewer"}, "sam": {"reviewer"}, "tom": {"reviewer"}, "ulf": {"reviewer"},
}

const payment = `{"type":"object","properties":{"amount":{"type":"number"},"count":{"type":"integer"},"currency":{"enum":["EUR","USD"]},"v":{}}}`

func openBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, skills: mcp.NewServer(&mcp.Implementation{Name: "skill", Version: "1"}, nil), tokens: map[string]string{"": edgeToken}, ids: map[string]uuid.UUID{}, browsers: map[string]*http.Client{}, declared: map[string]map[string]any{}}
	for _, name := range []string{"pay", "risky", "wipe", "fickle", "read_inbox"} {
		b.offer(name, "1")
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.skills }, nil))
	t.Cleanup(server.Close)
	b.skillAt = server.URL
	first, db, _ := openEdge(t, func(s *serverSettings) { s.Outward.TrustedHosts = []string{"127.0.0.1"} }) // calendars
	b.db = db
	b.use(first)
	for name, of := range benchPeople {
		b.admit(name, identity.Role(of[0]))
		teams := of[1:]
		_, err := b.s.runtime.Identity.ChangeMember(t.Context(), audit.System(), b.ids[name], identity.MemberChange{Teams: &teams})
		check(t, err)
	}
	return b
}

// use has people use a server.
func (b *bench) use(s *server) {
	b.s, b.address = s, "http://"+s.listener.Addr().String()
}

// admit makes a token for a person.
func (b *bench) admit(name string, roles ...identity.Role) {
	b.Helper()
	_, token, err := b.s.runtime.Identity.CreateToken(b.Context(), uuid.Nil, name, roles, nil)
	check(b, err)
	access, err := b.s.runtime.Identity.Authenticate(b.Context(), token)
	check(b, err)
	b.tokens[name], b.ids[name] = token, access.Person.ID
}

// replaceServer serves the same database with other settings.
func (b *bench) replaceServer(change func(*serverSettings)) {
	b.Helper()
	settings := b.s.settings
	settings.PublicURL = ""
	change(&settings)
	s, _ := serveEdge(b.T, settings)
	b.use(s)
	b.browsers = map[string]*http.Client{}
}

// offer sets the definition of a tool of all skills.
func (b *bench) offer(name, description string) {
	tool := &mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(payment)}
	if name == "wipe" {
		tool.Annotations = &mcp.ToolAnnotations{DestructiveHint: new(true)}
	}
	b.skills.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
}

// surfaceNames are the surfaces in the order of the issue.
const (
	onDashboard = "dashboard"
	onAPI       = "API"
	onCommands  = "command line"
	onApply     = "apply"
)

func (b *bench) open(name string) surface {
	switch name {
	case onDashboard:
		return &dashboardSurface{b}
	case onAPI:
		return &apiSurface{b}
	case onCommands:
		return &commandSurface{b}
	}
	return &applySurface{&commandSurface{b}}
}

// request sends a JSON request to the API and returns the status and the body.
func (b *bench) request(person, method, path string, body any) (status int, text []byte) {
	b.Helper()
	encoded, err := json.Marshal(body)
	check(b, err)
	r, err := http.NewRequestWithContext(b.Context(), method, b.address+"/api/v1/"+path, bytes.NewReader(encoded))
	check(b, err)
	r.Header.Set("Authorization", "Bearer "+b.tokens[person])
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	check(b, err)
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	check(b, err)
	return response.StatusCode, text
}

// apiSurface is the API.
type apiSurface struct{ *bench }

// send returns what the API answers, as a refusal if it is none of success.
func (a *apiSurface) send(person, method, path string, body any) (answer map[string]any, refusal string) {
	a.Helper()
	status, text := a.request(person, method, path, body)
	if len(text) > 0 {
		check(a, json.Unmarshal(text, &answer))
	}
	if status >= http.StatusBadRequest || answer["code"] == "change_waits" {
		return nil, string(text)
	}
	return answer, ""
}

func (a *apiSurface) refusal(person, method, path string, body any) string {
	a.Helper()
	_, refusal := a.send(person, method, path, body)
	return refusal
}

// omit returns a specification as an object without one of its members.
func (b *bench) omit(spec any, member string) map[string]any {
	b.Helper()
	text, err := json.Marshal(spec)
	check(b, err)
	var object map[string]any
	check(b, json.Unmarshal(text, &object))
	delete(object, member)
	return object
}

func (a *apiSurface) setRule(spec rule.Spec) string {
	return a.refusal("olga", http.MethodPut, "rules/"+spec.Name, a.omit(spec, "name"))
}

func (a *apiSurface) setPolicy(spec policy.Spec) string {
	return a.refusal("olga", http.MethodPut, "policies/"+spec.Name, a.omit(spec, "name"))
}

func (a *apiSurface) setSkill(skill, setting, value string) string {
	return a.refusal("olga", http.MethodPatch, "skills/"+skill, map[string]any{setting: settingOf(setting, value)})
}

func (a *apiSurface) setTool(skill, tool, setting, value string) string {
	return a.refusal("olga", http.MethodPatch, "skills/"+skill+"/tools/"+tool, map[string]any{setting: settingOf(setting, value)})
}

// settingOf returns the value of a setting in JSON.
func settingOf(setting, value string) any {
	if setting == "escalation" {
		steps, err := approval.ParseEscalation(value)
		if err != nil {
			return err.Error()
		}
		return steps
	}
	if value == "true" || value == "false" {
		return value == "true"
	}
	return value
}

func (a *apiSurface) digest(person string, id uuid.UUID) string {
	a.Helper()
	shown, refusal := a.send(person, http.MethodGet, "approvals/"+id.String(), nil)
	if refusal != "" {
		a.Fatalf("approval %s: %s", id, refusal)
	}
	return shown["digest"].(string)
}

func (a *apiSurface) approve(person string, id uuid.UUID, how vote) string {
	body := map[string]any{"digest": a.digest(person, id)}
	if how.arguments != "" {
		body["arguments"] = json.RawMessage(how.arguments)
	}
	if how.alone != "" {
		body["break_glass"], body["note"] = true, how.alone
	}
	return a.refusal(person, http.MethodPost, "approvals/"+id.String()+"/approve", body)
}

func (a *apiSurface) reject(person string, id uuid.UUID) string {
	return a.refusal(person, http.MethodPost, "approvals/"+id.String()+"/reject", map[string]any{"digest": a.digest(person, id), "reason": "no"})
}

func (a *apiSurface) reviewGlass(person string, id uuid.UUID) string {
	return a.refusal(person, http.MethodPost, "approvals/"+id.String()+"/review", map[string]any{})
}

func (a *apiSurface) makeGrant(person string, id uuid.UUID, wanted wantedGrant) (made, refusal string) {
	body := map[string]any{"call_id": id}
	if wanted.kind != "" {
		status, text := a.request(person, http.MethodPost, "grants/preview", body)
		var preview struct{ Proposals []grant.Proposal }
		if err := json.Unmarshal(text, &preview); err != nil || status != http.StatusOK || len(preview.Proposals) != 1 {
			return "", string(text)
		}
		body["arguments"] = []grant.Matcher{preview.Proposals[0].Read(wanted.kind, wanted.values)}
	}
	if wanted.uses != "" {
		body["uses"] = json.RawMessage(wanted.uses)
	}
	if wanted.time != "" {
		body["time"] = wanted.time
	}
	answer, refusal := a.send(person, http.MethodPost, "grants", body)
	if refusal != "" {
		return "", refusal
	}
	return answer["id"].(string), ""
}

func (a *apiSurface) confirmGrant(person, id string) string {
	return a.refusal(person, http.MethodPost, "grants/"+id+"/confirm", nil)
}

func (a *apiSurface) revokeGrant(person, id string) string {
	return a.refusal(person, http.MethodPost, "grants/"+id+"/revoke", nil)
}

// inAnHour is when delegations and absences of the tests end.
func inAnHour() time.Time { return time.Now().Add(time.Hour).UTC().Truncate(time.Minute) }

func (a *apiSurface) delegate(person, team, to string) string {
	return a.refusal(person, http.MethodPost, "delegations", map[string]any{"team": team, "person": a.ids[to], "ends": inAnHour()})
}

func (a *apiSurface) leave(person, substitute string) string {
	return a.refusal(person, http.MethodPost, "absences", map[string]any{"substitute": a.ids[substitute], "ends": inAnHour()})
}

func (a *apiSurface) limitReviewer(person, skill string) string {
	return a.refusal("olga", http.MethodPatch, "people/"+a.ids[person].String(), map[string]any{"review_limit": map[string]any{"skills": []string{skill}}})
}

func (a *apiSurface) giveRole(person string, role identity.Role) string {
	return a.refusal("olga", http.MethodPatch, "people/"+a.ids[person].String(), map[string]any{"granted_roles": []identity.Role{role}})
}

func (a *apiSurface) setCalendar(team, address string) string {
	return a.refusal("olga", http.MethodPut, "teams/"+team+"/schedule", map[string]any{"url": address})
}

func (a *apiSurface) readTeams(person string) string {
	_, text := a.request(person, http.MethodGet, "teams", nil)
	return string(text)
}

func (a *apiSurface) approvePlan(person string, plan uuid.UUID, struck ...int) string {
	return a.refusal(person, http.MethodPost, "plans/"+plan.String()+"/approve", map[string]any{"digest": a.planDigest(person, plan), "strike": append([]int{}, struck...)})
}

func (a *apiSurface) planDigest(person string, plan uuid.UUID) string {
	a.Helper()
	shown, refusal := a.send(person, http.MethodGet, "plans/"+plan.String(), nil)
	if refusal != "" {
		a.Fatalf("plan %s: %s", plan, refusal)
	}
	return shown["digest"].(string)
}

func (a *apiSurface) rejectPlan(person string, plan uuid.UUID) string {
	return a.refusal(person, http.MethodPost, "plans/"+plan.String()+"/reject", map[string]any{"digest": a.planDigest(person, plan)})
}

func (a *apiSurface) revokePlan(person string, plan uuid.UUID) string {
	return a.refusal(person, http.MethodPost, "plans/"+plan.String()+"/revoke", nil)
}

func (a *apiSurface) readPlan(person string, plan uuid.UUID) string {
	_, text := a.request(person, http.MethodGet, "plans/"+plan.String(), nil)
	return string(text)
}

func (a *apiSurface) findChange(person string) string {
	answer, _ := a.send(person, http.MethodGet, "changes?pending=true", nil)
	items, _ := answer["items"].([]any)
	if len(items) == 0 {
		return ""
	}
	return items[0].(map[string]any)["id"].(string)
}

func (a *apiSurface) approveChange(person, change string) string {
	return a.refusal(person, http.MethodPost, "changes/"+change+"/approve", map[string]any{})
}

func (a *apiSurface) read(person string, id uuid.UUID) outcome {
	a.Helper()
	status, text := a.request(person, http.MethodGet, "calls/"+id.String(), nil)
	var c, waiting struct{ Status, Rule string }
	if err := json.Unmarshal(text, &c); err != nil || status != http.StatusOK {
		a.Fatalf("call %s: %d %s", id, status, text)
	}
	if status, more := a.request(person, http.MethodGet, "approvals/"+id.String(), nil); status == http.StatusOK {
		check(a, json.Unmarshal(more, &waiting))
		text = append(text, more...)
	}
	if c.Status == string(call.Parked) {
		c.Status += " " + waiting.Rule
	}
	return outcome{c.Status, string(text)}
}

// commandSurface is the command line.
type commandSurface struct{ *bench }

// run runs a command of a person, and returns what it printed, or its errors.
func (c *commandSurface) run(person string, args ...string) (printed, refusal string) {
	c.Helper()
	env := map[string]string{"HOLDPOINT_URL": c.address, "HOLDPOINT_TOKEN": c.tokens[person]}
	var stdout, stderr bytes.Buffer
	if run(c.Context(), args, func(name string) string { return env[name] }, strings.NewReader(""), &stdout, &stderr) != 0 {
		return "", stdout.String() + stderr.String() + "refused"
	}
	return stdout.String(), ""
}

func (c *commandSurface) refusal(person string, args ...string) string {
	c.Helper()
	_, refusal := c.run(person, args...)
	return refusal
}

// file writes a value to a file. JSON is YAML.
func (b *bench) file(value any) string {
	b.Helper()
	text, err := json.Marshal(value)
	check(b, err)
	file := filepath.Join(b.TempDir(), "holdpoint.yaml")
	check(b, os.WriteFile(file, text, 0o600))
	return file
}

func (c *commandSurface) setRule(spec rule.Spec) string {
	args := []string{
		"rules", "set", spec.Name, "--when", spec.When, "--effect", string(spec.Effect), "--mode", string(spec.Mode), "--message", spec.Message, "--policy", spec.Policy,
		fmt.Sprintf("--high-risk=%t", spec.HighRisk), fmt.Sprintf("--grants=%t", spec.Grants),
	}
	for flag, names := range map[string][]string{"--agent": spec.Agents, "--skill": spec.Skills, "--tool": spec.Tools} {
		for _, name := range names {
			args = append(args, flag, name)
		}
	}
	return c.refusal("olga", args...)
}

func (c *commandSurface) setPolicy(spec policy.Spec) string {
	return c.refusal("olga", "policies", "set", spec.Name, "--file", c.file(spec))
}

func (c *commandSurface) setSkill(skill, setting, value string) string {
	return c.refusal("olga", "skill", "edit", skill, "--"+strings.ReplaceAll(setting, "_", "-")+"="+value)
}

func (c *commandSurface) setTool(skill, tool, setting, value string) string {
	return c.refusal("olga", "skill", "set", skill, tool, "--"+setting+"="+value)
}

func (c *commandSurface) approve(person string, id uuid.UUID, how vote) string {
	args := []string{"approvals", "approve", id.String(), "--digest", (&apiSurface{c.bench}).digest(person, id)}
	if how.arguments != "" {
		args = append(args, "--args", how.arguments)
	}
	if how.alone != "" {
		args = append(args, "--break-glass", "--note", how.alone)
	}
	return c.refusal(person, args...)
}

func (c *commandSurface) reject(person string, id uuid.UUID) string {
	return c.refusal(person, "approvals", "reject", id.String(), "--reason", "no")
}

func (c *commandSurface) reviewGlass(person string, id uuid.UUID) string {
	return c.refusal(person, "approvals", "review", id.String())
}

func (c *commandSurface) makeGrant(person string, id uuid.UUID, wanted wantedGrant) (made, refusal string) {
	args := []string{"grants", "create", id.String()}
	if wanted.kind != "" {
		args = append(args, "--allow", "/v="+string(wanted.kind)+":"+strings.ReplaceAll(wanted.values, "\n", ","))
	}
	if wanted.uses != "" {
		args = append(args, "--uses", wanted.uses)
	}
	if wanted.time != "" {
		args = append(args, "--time", wanted.time)
	}
	printed, refusal := c.run(person, args...)
	return fieldOf(printed, "ID"), refusal
}

// fieldOf returns a field that a command printed.
func fieldOf(printed, name string) string {
	for line := range strings.Lines(printed) {
		if rest, ok := strings.CutPrefix(line, name+"  "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func (c *commandSurface) confirmGrant(person, id string) string {
	return c.refusal(person, "grants", "confirm", id)
}

func (c *commandSurface) revokeGrant(person, id string) string {
	return c.refusal(person, "grants", "revoke", id)
}

func (c *commandSurface) delegate(person, team, to string) string {
	return c.refusal(person, "teams", "delegate", team, "--to", c.ids[to].String(), "--until", inAnHour().Format(time.RFC3339))
}

func (c *commandSurface) leave(person, substitute string) string {
	return c.refusal(person, "away", "set", "--substitute", c.ids[substitute].String(), "--until", inAnHour().Format(time.RFC3339))
}

func (c *commandSurface) limitReviewer(person, skill string) string {
	return c.refusal("olga", "people", "grant", c.ids[person].String(), "--review-skill", skill)
}

func (c *commandSurface) giveRole(person string, role identity.Role) string {
	return c.refusal("olga", "people", "grant", c.ids[person].String(), "--role", string(role))
}

func (c *commandSurface) setCalendar(team, address string) string {
	file := filepath.Join(c.TempDir(), "url")
	check(c, os.WriteFile(file, []byte(address), 0o600))
	return c.refusal("olga", "teams", "schedule", team, "--url-file", file)
}

func (c *commandSurface) readTeams(person string) string {
	printed, refusal := c.run(person, "teams", "list")
	return printed + refusal
}

func (c *commandSurface) approvePlan(person string, plan uuid.UUID, struck ...int) string {
	args := []string{"plans", "approve", plan.String(), "--digest", (&apiSurface{c.bench}).planDigest(person, plan)}
	for _, i := range struck {
		args = append(args, "--strike", strconv.Itoa(i+1))
	}
	return c.refusal(person, args...)
}

func (c *commandSurface) rejectPlan(person string, plan uuid.UUID) string {
	return c.refusal(person, "plans", "reject", plan.String(), "--digest", (&apiSurface{c.bench}).planDigest(person, plan))
}

func (c *commandSurface) revokePlan(person string, plan uuid.UUID) string {
	return c.refusal(person, "plans", "revoke", plan.String())
}

func (c *commandSurface) readPlan(person string, plan uuid.UUID) string {
	printed, refusal := c.run(person, "plans", "show", plan.String())
	return printed + refusal
}

func (c *commandSurface) findChange(person string) string {
	printed, _ := c.run(person, "changes", "list", "--pending")
	_, rows, _ := strings.Cut(printed, "\n")
	id, _, _ := strings.Cut(rows, " ")
	return id
}

func (c *commandSurface) approveChange(person, change string) string {
	return c.refusal(person, "changes", "approve", change)
}

func (c *commandSurface) read(person string, id uuid.UUID) outcome {
	c.Helper()
	shown, refusal := c.run(person, "calls", "show", id.String())
	if refusal != "" {
		c.Fatalf("calls show %s: %s", id, refusal)
	}
	approval, _ := c.run(person, "approvals", "show", id.String())
	o := outcome{fieldOf(shown, "Status"), shown + approval}
	if o.status == string(call.Parked) {
		o.status += " " + fieldOf(approval, "Parked because")
	}
	return o
}

// applySurface is holdpoint.yaml, which declares rules, policies and skills. Decisions are no part of it.
type applySurface struct{ *commandSurface }

func (a *applySurface) apply(spec map[string]any) string {
	a.Helper()
	printed, refusal := a.run("olga", "apply", "-f", a.file(spec))
	if strings.Contains(printed, "waits") {
		return printed
	}
	return refusal
}

func (a *applySurface) setRule(spec rule.Spec) string {
	return a.apply(map[string]any{"rules": []rule.Spec{spec}})
}

func (a *applySurface) setPolicy(spec policy.Spec) string {
	return a.apply(map[string]any{"policies": []policy.Spec{spec}})
}

func (a *applySurface) setSkill(skill, setting, value string) string {
	a.declared[skill][setting] = settingOf(setting, value)
	return a.apply(map[string]any{"skills": []any{a.declared[skill]}})
}

func (a *applySurface) setTool(skill, tool, setting, value string) string {
	tools := a.declared[skill]["tools"].(map[string]any)
	if tools[tool] == nil {
		tools[tool] = map[string]any{}
	}
	tools[tool].(map[string]any)[setting] = settingOf(setting, value)
	return a.apply(map[string]any{"skills": []any{a.declared[skill]}})
}

// dashboardSurface is the dashboard in a browser without scripts.
type dashboardSurface struct{ *bench }

// page is a page of the dashboard.
type page struct {
	*goquery.Document
	status int
	at     string // where the page was, or leads to
}

func (d *dashboardSurface) send(person, method, path string, form url.Values) page {
	d.Helper()
	browser := d.browsers[person]
	if browser == nil {
		jar, err := cookiejar.New(nil)
		check(d, err)
		browser = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		d.browsers[person] = browser
		if p := d.send(person, http.MethodPost, "/sign-in", url.Values{"token": {d.tokens[person]}}); p.status != http.StatusSeeOther {
			delete(d.browsers, person)
			return p
		}
	}
	r, err := http.NewRequestWithContext(d.Context(), method, d.address+path, strings.NewReader(form.Encode()))
	check(d, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	response, err := browser.Do(r)
	check(d, err)
	defer response.Body.Close()
	document, err := goquery.NewDocumentFromReader(response.Body)
	check(d, err)
	return page{document, response.StatusCode, response.Header.Get("Location")}
}

func (d *dashboardSurface) get(person, path string) page {
	return d.send(person, http.MethodGet, path, nil)
}

// post sends a form. A redirection is the answer of a form that was accepted, unless it leads to a change that waits.
func (d *dashboardSurface) post(person, path string, form url.Values) string {
	d.Helper()
	switch p := d.send(person, http.MethodPost, path, form); {
	case strings.HasPrefix(p.at, "/changes/") && !strings.HasPrefix(path, "/changes/"):
		return "waits for a second operator"
	case p.status != http.StatusSeeOther:
		return p.text()
	}
	return ""
}

var linePlace = regexp.MustCompile(`Line (\d+), column (\d+): `)

// text returns the words of the page. The place of a problem is as in the API.
func (p page) text() string {
	return linePlace.ReplaceAllString(strings.Join(strings.Fields(p.Find("main").Text()), " "), "$1:$2: ")
}

func (p page) find(testID string) *goquery.Selection {
	return p.Find(`[data-testid="` + testID + `"]`)
}

// form returns what a form would send, with changes.
func (p page) form(testID string, changes url.Values) url.Values {
	form := url.Values{}
	p.find(testID).Find("input, textarea, select").Each(func(_ int, s *goquery.Selection) {
		name, value := s.AttrOr("name", ""), s.AttrOr("value", s.Text())
		_, checked := s.Attr("checked")
		switch kind := s.AttrOr("type", ""); {
		case name == "", !checked && (kind == "radio" || kind == "checkbox"):
			return
		case s.Is("select"):
			value = s.Find("option[selected]").AttrOr("value", "")
		}
		form.Add(name, value)
	})
	maps.Copy(form, changes)
	return form
}

// list returns the names of a list in a form, which is not empty.
func list(names []string) []string { return append([]string{""}, names...) }

func (d *dashboardSurface) setRule(spec rule.Spec) string {
	base := "/rules/new"
	if edit := "/rules/named/" + spec.Name + "/edit"; d.get("olga", edit).status == http.StatusOK {
		base = edit
	}
	changes := url.Values{
		"name": {spec.Name}, "agents": list(spec.Agents), "skills": list(spec.Skills), "tools": list(spec.Tools), "when": {spec.When},
		"effect": {string(spec.Effect)}, "mode": {string(spec.Mode)}, "message": {spec.Message}, "policy": {spec.Policy},
	}
	for name, ticked := range map[string]bool{"high_risk": spec.HighRisk, "grants": spec.Grants} {
		changes.Del(name)
		if ticked {
			changes.Set(name, "true")
		}
	}
	return d.post("olga", base, d.get("olga", base).form("rule-form", changes))
}

func (d *dashboardSurface) setPolicy(spec policy.Spec) string {
	base := "/policies/new"
	if edit := "/policies/named/" + spec.Name + "/edit"; d.get("olga", edit).status == http.StatusOK {
		base = edit
	}
	changes := url.Values{"name": {spec.Name}, "any": {policy.FormatAlternatives(spec.Any)}}
	if spec.Rejections > 0 {
		changes.Set("rejections", strconv.Itoa(spec.Rejections))
	}
	if spec.BreakGlass {
		changes.Set("break_glass", "true")
	}
	if spec.ApprovalTimeout != nil {
		changes.Set("approval_timeout", spec.ApprovalTimeout.String())
	}
	return d.post("olga", base, d.get("olga", base).form("policy-form", changes))
}

// skillPage returns the address of a skill.
func (d *dashboardSurface) skillPage(skill string) string {
	d.Helper()
	found, err := d.s.runtime.Agents.SkillByName(d.Context(), skill)
	check(d, err)
	return "/skills/" + found.ID.String()
}

func (d *dashboardSurface) setSkill(skill, setting, value string) string {
	path := d.skillPage(skill) + "/edit"
	return d.post("olga", path, d.get("olga", path).form("skill-form", url.Values{setting: {value}}))
}

func (d *dashboardSurface) setTool(skill, tool, setting, value string) string {
	path := d.skillPage(skill) + "/tools"
	form := d.get("olga", path+"?tool="+tool).form("tool-form", nil)
	switch {
	case setting == "risk":
		form.Set("high_risk", "on")
	case value == "true":
		form.Set(setting, "on")
	case value == "false":
		form.Del(setting)
	default:
		form.Set(setting, value)
	}
	return d.post("olga", path, form)
}

func (d *dashboardSurface) approve(person string, id uuid.UUID, how vote) string {
	path := "/calls/" + id.String()
	shown := d.get(person, path)
	if shown.find("decide").Length() == 0 {
		return shown.text()
	}
	form := shown.form("decide", url.Values{"confirmed": {"1"}})
	if how.arguments != "" {
		form.Set("sent", "json")
		form.Set("json", how.arguments)
		preview := d.send(person, http.MethodPost, path+"/edit", form)
		form = preview.form("decide", url.Values{"confirmed": {"1"}})
	}
	if how.alone != "" {
		form.Set("reason", how.alone)
		return d.post(person, path+"/break-glass", form)
	}
	return d.post(person, path+"/approve", form)
}

func (d *dashboardSurface) reject(person string, id uuid.UUID) string {
	path := "/calls/" + id.String()
	shown := d.get(person, path)
	if shown.find("decide").Length() == 0 {
		return shown.text()
	}
	return d.post(person, path+"/reject", shown.form("decide", url.Values{"reason": {"no"}}))
}

func (d *dashboardSurface) reviewGlass(person string, id uuid.UUID) string {
	path := "/calls/" + id.String()
	return d.post(person, path+"/review-glass", d.get(person, path).form("review-glass", nil))
}

func (d *dashboardSurface) makeGrant(person string, id uuid.UUID, wanted wantedGrant) (made, refusal string) {
	path := "/calls/" + id.String() + "/grant"
	changes := url.Values{"uses": {wanted.uses}}
	if wanted.kind != "" {
		changes.Set("kind.0", string(wanted.kind))
		changes.Set("values.0", wanted.values)
	}
	if wanted.time != "" {
		changes.Set("time", wanted.time)
	}
	shown := d.get(person, path)
	if shown.status != http.StatusOK {
		return "", shown.text()
	}
	p := d.send(person, http.MethodPost, path, shown.form("grant-form", changes))
	switch {
	case p.status != http.StatusSeeOther:
		return "", p.text()
	case !strings.HasPrefix(p.at, "/grants/"):
		return "", "waits for a second operator: " + p.at
	}
	made, _, _ = strings.Cut(strings.TrimPrefix(p.at, "/grants/"), "?")
	return made, ""
}

func (d *dashboardSurface) confirmGrant(person, id string) string {
	return d.post(person, "/grants/"+id+"/confirm", nil)
}

func (d *dashboardSurface) revokeGrant(person, id string) string {
	return d.post(person, "/grants/"+id+"/revoke", nil)
}

func (d *dashboardSurface) delegate(person, team, to string) string {
	if d.get(person, "/teams").find("new-delegation").Length() == 0 {
		return "there is no form"
	}
	return d.post(person, "/teams/delegations", url.Values{"team": {team}, "to": {d.ids[to].String()}, "ends": {inAnHour().Format("2006-01-02T15:04")}})
}

func (d *dashboardSurface) leave(person, substitute string) string {
	return d.post(person, "/teams/absences", url.Values{"substitute": {d.ids[substitute].String()}, "until": {inAnHour().Format("2006-01-02T15:04")}})
}

func (d *dashboardSurface) limitReviewer(person, skill string) string {
	return d.post("olga", "/members/"+d.ids[person].String()+"/grant", url.Values{"limit-skills": {skill}})
}

func (d *dashboardSurface) giveRole(person string, role identity.Role) string {
	return d.post("olga", "/members/"+d.ids[person].String()+"/grant", url.Values{"role": {string(role)}})
}

func (d *dashboardSurface) setCalendar(team, address string) string {
	return d.post("olga", "/teams/schedules", url.Values{"name": {team}, "url": {address}})
}

func (d *dashboardSurface) readTeams(person string) string { return d.get(person, "/teams").text() }

func (d *dashboardSurface) approvePlan(person string, plan uuid.UUID, struck ...int) string {
	changes := url.Values{}
	for _, i := range struck {
		changes.Add("strike", strconv.Itoa(i))
	}
	return d.decidePlan(person, plan, "approve", changes)
}

// decidePlan presses a button of a plan's page, if it is there.
func (d *dashboardSurface) decidePlan(person string, plan uuid.UUID, how string, changes url.Values) string {
	path := "/plans/" + plan.String()
	shown := d.get(person, path)
	if shown.find(how+"-plan").Length() == 0 {
		return shown.text()
	}
	return d.post(person, path+"/"+how, shown.form("plan", changes))
}

func (d *dashboardSurface) rejectPlan(person string, plan uuid.UUID) string {
	return d.decidePlan(person, plan, "reject", nil)
}

func (d *dashboardSurface) revokePlan(person string, plan uuid.UUID) string {
	return d.decidePlan(person, plan, "revoke", nil)
}

func (d *dashboardSurface) readPlan(person string, plan uuid.UUID) string {
	return d.get(person, "/plans/"+plan.String()).text()
}

func (d *dashboardSurface) findChange(person string) string {
	for _, link := range d.get(person, "/changes").find("change-row").Find("a").EachIter() {
		return strings.TrimPrefix(link.AttrOr("href", ""), "/changes/")
	}
	return ""
}

func (d *dashboardSurface) approveChange(person, change string) string {
	return d.post(person, "/changes/"+change+"/approve", nil)
}

// pageStatuses and pageReasons are the words of the dashboard for what the API names.
var (
	pageStatuses = map[string]string{
		"Waiting": "parked", "Done": "succeeded", "Denied": "denied", "Rejected": "rejected", "Expired": "expired",
	}
	pageReasons = map[string]string{
		"Calls of this skill need an approval.": "gated", "An operator marked the tool as high risk.": "high_risk", "The tool’s definition changed.": "definition_changed",
		"A rule requires an approval.": "rule_parked", "A rule could not be evaluated.": "rule_failed",
	}
)

func (d *dashboardSurface) read(person string, id uuid.UUID) outcome {
	d.Helper()
	p := d.get(person, "/calls/"+id.String())
	badge := strings.TrimSpace(p.find("state").Children().First().Text())
	o := outcome{pageStatuses[badge], p.text()}
	if o.status == "" {
		d.Fatalf("the page shows the status %q: %s", badge, o.text)
	}
	if o.status == string(call.Parked) {
		o.status += " " + pageReasons[strings.TrimSpace(p.find("why").Find("p").First().Text())]
	}
	return o
}
