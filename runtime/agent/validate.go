package agent

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/runtime/httptool/selection"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	maxURLLength    = 2048
	maxArguments    = 256
	maxArgument     = 4096
	maxHeaders      = 64
	maxHeaderValue  = 8192
	maxVariables    = 256
	maxPaths        = 64
	maxVariable     = 32 << 10
	maxToolSettings = 10_000
	maxToolName     = 256
	maxInstructions = 64 << 10

	minApprovalTimeout = time.Second
	maxApprovalTimeout = 30 * 24 * time.Hour
	minCallTimeout     = 10 * time.Millisecond
	maxCallTimeout     = time.Hour
	minWaitBudget      = time.Second // zero would be taken for none given
	maxWaitBudget      = time.Hour
)

var (
	headerForm   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
	accountForm  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// reservedHeader tells the headers that belong to HTTP or to MCP.
func reservedHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch canonical {
	case "Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host",
		"Keep-Alive", "Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Mcp-") || strings.HasPrefix(canonical, "Proxy-") ||
		strings.HasPrefix(canonical, "Sec-")
}

func (r report) name(field, name string) { r.check(tool.ValidName(name), field, tool.NameRule) }

// text refuses what PostgreSQL, or a terminal, would choke on.
func (r report) text(field, text string, limit int) {
	r.check(len(text) <= limit, field, fmt.Sprintf("must be at most %d bytes", limit))
	r.check(utf8.ValidString(text) && !strings.ContainsRune(text, 0), field, "must be UTF-8 without NUL")
}

func (r report) duration(field string, d, low, high time.Duration) {
	r.check(d >= low && d <= high, field, fmt.Sprintf("must be between %s and %s", Duration(low), Duration(high)))
}

func (r report) url(field, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		r.add(field, "is required: an absolute http or https URL")
	case len(text) > maxURLLength:
		r.add(field, fmt.Sprintf("must be at most %d bytes", maxURLLength))
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		strings.ContainsFunc(text, unicode.IsControl):
		r.add(field, "must be an absolute http or https URL")
	case u.User != nil:
		r.add(field, "must have no user or password in it; use headers")
	case u.Fragment != "" || strings.Contains(text, "#"):
		r.add(field, "must have no fragment")
	}
}

// validate checks a skill as it is to be.
func (s *skillState) validate(r report, limits limits) {
	switch s.Transport {
	case tool.HTTP:
		r.url("url", s.URL)
		r.check(len(s.Command) == 0, "command", "belongs to transport stdio")
		r.check(len(s.Env) == 0, "env", "belongs to transport stdio")
		r.headers(s.Headers, report.headerValue)
		s.IdentityHeaders.validate(r.below("identity_headers"), s.Headers)
		s.validateOAuth(r)
	case tool.Stdio:
		r.check(s.URL == "", "url", "belongs to transport http")
		r.check(len(s.Headers) == 0, "headers", "belong to transport http")
		r.check(s.OAuth == nil, "oauth", "belongs to transport http")
		r.check(!s.IdentityHeaders.Enabled, "identity_headers", "belong to transport http")
		r.check(!s.PerUser, "connection", "per_user belongs to transport http")
		if r.command(s.Command); len(s.Command) > 0 {
			for _, refusal := range limits.stdio.Check(s.Command, s.RunAs, s.Paths, slices.Sorted(maps.Keys(s.Env))) {
				r.add(refusal.Field, refusal.Message)
			}
		}
		r.check(s.RunAs == "" || len(s.RunAs) <= 32 && accountForm.MatchString(s.RunAs), "run_as", "must be the name of an account")
		r.paths("paths.read", s.Paths.Read)
		r.paths("paths.write", s.Paths.Write)
		r.env(s.Env)
	case tool.OpenAPI, tool.HTTPAPI:
		s.validateAPI(r, limits)
	default:
		r.add("transport", "must be stdio, http, openapi or http-api")
	}
	if !s.Transport.IsAPI() {
		r.check(s.API.none(), "spec", "and what else is of HTTP APIs belongs to transports openapi and http-api")
	}
	if s.Transport != tool.Stdio {
		r.check(s.RunAs == "", "run_as", "belongs to transport stdio")
		r.check(s.Paths.None(), "paths", "belong to transport stdio")
	}
	r.duration("approval_timeout", s.ApprovalTimeout, minApprovalTimeout, maxApprovalTimeout)
	if s.ApprovalValidity != 0 {
		r.duration("approval_validity", s.ApprovalValidity, minApprovalTimeout, maxApprovalTimeout)
	}
	r.duration("call_timeout", s.CallTimeout, minCallTimeout, maxCallTimeout)
	r.check(s.Resources == ResourcesGated || s.Resources == ResourcesPass, "resources", "must be gated or pass")
	r.check(s.Edits == EditsByRisk || s.Edits == EditsAlone || s.Edits == EditsSecond, "edits", "must be by_risk, alone or second")
	r.check(s.Questions == QuestionsReviewer || s.Questions == QuestionsClient, "questions", "must be reviewer or client")
	r.toolSettings(s.Transport, s.Tools)
	s.Attention.validate(r)
}

// headers checks those of a skill, their values with value.
func (r report) headers(headers map[string]string, value func(r report, field, value string)) {
	r.check(len(headers) <= maxHeaders, "headers", fmt.Sprintf("must be at most %d", maxHeaders))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := r.below("headers")
		switch {
		case !headerForm.MatchString(name):
			at.add(name, "is no HTTP header name")
		case reservedHeader(name):
			at.add(name, "is a header that Holdpoint sets itself")
		}
		value(at, name, headers[name])
	}
}

// headerValue refuses what cannot be the value of a header of an MCP server's.
func (r report) headerValue(field, value string) {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\t' }
	r.check(len(value) <= maxHeaderValue && utf8.ValidString(value) && !strings.ContainsFunc(value, control) &&
		strings.TrimSpace(value) == value && value != "",
		field, fmt.Sprintf("its value must be 1 to %d bytes of text without control characters or white space at its ends", maxHeaderValue))
}

// apiHeaderValue refuses what is not sent to HTTP APIs as the value of a header.
func (r report) apiHeaderValue(field, value string) {
	r.check(value != "" && len(value) <= maxHeaderValue && setting.HeaderValueProblem(value) == "",
		field, fmt.Sprintf("its value must be 1 to %d visible ASCII characters, with spaces only between them", maxHeaderValue))
}

func (r report) env(env map[string]string) {
	r.check(len(env) <= maxVariables, "env", fmt.Sprintf("must be at most %d", maxVariables))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := r.below("env")
		at.check(variableForm.MatchString(name), name, "is no name of an environment variable")
		at.text(name, env[name], maxVariable)
	}
}

// paths checks the form of declared paths; [tool.StdioPolicy] says which may be used.
func (r report) paths(field string, paths []string) {
	r.check(len(paths) <= maxPaths, field, fmt.Sprintf("must be at most %d", maxPaths))
	for i, path := range paths {
		r.text(indexed(field, i), path, maxArgument)
	}
}

func (r report) command(command []string) {
	r.check(len(command) > 0 && command[0] != "", "command", "is required: the program and its arguments")
	r.check(len(command) <= maxArguments, "command", fmt.Sprintf("must be at most %d words", maxArguments))
	for i, word := range command {
		r.text(fmt.Sprintf("command[%d]", i), word, maxArgument)
	}
}

func (r report) toolSettings(transport tool.Transport, tools map[string]ToolSettings) {
	r.check(len(tools) <= maxToolSettings, "tools", fmt.Sprintf("must be at most %d", maxToolSettings))
	at := r.below("tools")
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		r.toolName("tools", name)
		if program := tools[name].Select; program != "" {
			r.check(transport.IsAPI(), "tools."+name+".select", "belongs to transports openapi and http-api")
			if _, err := selection.Parse(program); err != nil {
				r.add("tools."+name+".select", err.Error())
			}
		}
		at.check(tools[name].Risk == "" || tools[name].Risk == RiskHigh, name+".risk", "must be high, or left out")
	}
}

func (r report) toolName(field, name string) {
	r.check(name != "" && len(name) <= maxToolName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl), field, fmt.Sprintf("%q is no tool's name", name))
}

// validate checks an agent as it is to be.
func (a *agentState) validate(r report) {
	r.text("instructions", a.Instructions, maxInstructions)
	r.duration("wait_budget", a.WaitBudget, minWaitBudget, maxWaitBudget)
	a.Endpoint.validate(r)
	a.Attention.validate(r)
	if a.Model == nil {
		return
	}
	a.Model.validate(r.below("model"))
	r.check(a.Endpoint.Limits.ConversationCost <= 0 || a.Model.priced(), "limits.conversation_cost",
		"needs a price to count by: model.input_price or model.output_price")
}

// validate checks an assignment by itself.
func (a *AssignmentSpec) validate(r report) {
	r.name("skill", a.Skill)
	if a.Prefix != nil && *a.Prefix != "" {
		r.name("prefix", *a.Prefix)
	}
	r.check(a.Tools == nil || len(a.Tools) > 0, "tools", "must name a tool; leave it out for all of them")
	for i, name := range a.Tools {
		r.toolName(fmt.Sprintf("tools[%d]", i), name)
	}
}

// validateAssignments checks them by themselves; a skill may be named once.
func validateAssignments(r report, list *[]AssignmentSpec) {
	if list == nil {
		return
	}
	seen := map[string]bool{}
	for i, a := range *list {
		at := r.below("skills").below(fmt.Sprintf("[%d]", i))
		a.validate(at)
		at.check(!seen[a.Skill], "skill", fmt.Sprintf("%q is named twice", a.Skill))
		seen[a.Skill] = true
	}
}
