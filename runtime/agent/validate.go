package agent

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

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
	maxTeam         = 128
	maxPointers     = 100 // of a tool
	maxPointer      = 512
)

var (
	headerForm   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
	accountForm  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// isReservedHeader reports whether HTTP or MCP use the header themselves.
func isReservedHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch canonical {
	case "Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host",
		"Keep-Alive", "Last-Event-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Mcp-") || strings.HasPrefix(canonical, "Proxy-") ||
		strings.HasPrefix(canonical, "Sec-")
}

func (r report) checkName(field, name string) { r.check(tool.ValidName(name), field, tool.NameRule) }

// checkText refuses text that PostgreSQL or a terminal cannot take.
func (r report) checkText(field, text string, limit int) {
	r.check(len(text) <= limit, field, fmt.Sprintf("must be at most %d bytes", limit))
	r.check(utf8.ValidString(text) && !strings.ContainsRune(text, 0), field, "must be UTF-8 without NUL")
}

func (r report) checkDuration(field string, d, low, high time.Duration) {
	r.check(d >= low && d <= high, field, fmt.Sprintf("must be between %s and %s", Duration(low), Duration(high)))
}

// checkOptionalDuration also accepts 0s. zero names its meaning.
func (r report) checkOptionalDuration(field string, d, low, high time.Duration, zero string) { //nolint:unparam // each setting names its bounds
	r.check(d == 0 || d >= low && d <= high, field, fmt.Sprintf("must be between %s and %s, or 0s for %s", Duration(low), Duration(high), zero))
}

// checkChoice checks a word that is one of some choices.
func (r report) checkChoice(field, word string, choices ...string) {
	last := len(choices) - 1
	r.check(slices.Contains(choices, word), field, fmt.Sprintf("must be %s or %s", strings.Join(choices[:last], ", "), choices[last]))
}

func (r report) checkURL(field, text string) {
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
		r.add(field, "must have no user or password; use headers")
	case u.Fragment != "" || strings.Contains(text, "#"):
		r.add(field, "must have no fragment")
	}
}

// validate checks the settings of a skill.
func (s *skillState) validate(r report, limits limits) {
	switch s.Transport {
	case tool.HTTP:
		r.checkURL("url", s.URL)
		r.check(len(s.Command) == 0, "command", "belongs to transport stdio")
		r.check(len(s.Env) == 0, "env", "belongs to transport stdio")
		r.checkHeaders(s.Headers, report.checkHeaderValue)
		s.IdentityHeaders.validate(r.below("identity_headers"), s.Headers)
		s.validateOAuth(r)
	case tool.Stdio:
		r.check(s.URL == "", "url", "belongs to transport http")
		r.check(len(s.Headers) == 0, "headers", "belong to transport http")
		r.check(s.OAuth == nil, "oauth", "belongs to transport http")
		r.check(!s.IdentityHeaders.Enabled, "identity_headers", "belong to transport http")
		r.check(!s.PerUser, "connection", "per_user belongs to transport http")
		if r.checkCommand(s.Command); len(s.Command) > 0 {
			for _, refusal := range limits.stdio.Check(s.Command, s.RunAs, s.Paths, slices.Sorted(maps.Keys(s.Env))) {
				r.add(refusal.Field, refusal.Message)
			}
		}
		r.check(s.RunAs == "" || len(s.RunAs) <= 32 && accountForm.MatchString(s.RunAs), "run_as", "must be the name of an account")
		r.checkPaths("paths.read", s.Paths.Read)
		r.checkPaths("paths.write", s.Paths.Write)
		r.checkEnv(s.Env)
	case tool.OpenAPI, tool.HTTPAPI:
		s.validateAPI(r, limits)
	case tool.Gate:
		s.validateGate(r)
	default:
		r.add("transport", "must be stdio, http, openapi, http-api or gate")
	}
	if s.Transport != tool.Gate {
		r.check(s.Host == "", "host", "belongs to transport gate")
		r.check(s.ReleaseTime == 0, "release_time", "belongs to transport gate")
	}
	if !s.Transport.IsAPI() {
		r.check(s.API.isEmpty(), "spec", "and the other settings of HTTP APIs belong to transports openapi and http-api")
	}
	if s.Transport != tool.Stdio {
		r.check(s.RunAs == "", "run_as", "belongs to transport stdio")
		r.check(s.Paths.None(), "paths", "belong to transport stdio")
	}
	s.validateSettings(r)
	r.checkToolSettings(s.Transport, s.Tools)
	r.checkEscalation(s.Team, s.EscalateTo, s.Escalation)
}

// validateGate checks a skill without a server.
func (s *skillState) validateGate(r report) {
	r.check(s.URL == "", "url", "belongs to transport http")
	r.check(len(s.Command) == 0, "command", "belongs to transport stdio")
	r.check(len(s.Env) == 0, "env", "belongs to transport stdio")
	r.check(len(s.Headers) == 0, "headers", "belong to transport http")
	r.check(s.OAuth == nil, "oauth", "belongs to transport http")
	r.check(!s.IdentityHeaders.Enabled, "identity_headers", "belong to transport http")
	r.check(!s.PerUser, "connection", "per_user belongs to transport http")
}

// DefaultReleaseTime is how long a released call may be started.
const DefaultReleaseTime = 5 * time.Minute

func (r report) checkHost(field, name string) {
	if name != "" {
		r.checkChoice(field, name, tool.Hosts()...)
	}
}

// checkHeaders checks the headers of a skill. The function value checks each value.
func (r report) checkHeaders(headers map[string]string, value func(r report, field, value string)) {
	r.check(len(headers) <= maxHeaders, "headers", fmt.Sprintf("must be at most %d", maxHeaders))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := r.below("headers")
		switch {
		case !headerForm.MatchString(name):
			at.add(name, "is not a valid name of an HTTP header")
		case isReservedHeader(name):
			at.add(name, "is a header that Holdpoint sets itself")
		}
		value(at, name, headers[name])
	}
}

// checkHeaderValue checks the value of a header for MCP servers.
func (r report) checkHeaderValue(field, value string) {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\t' }
	r.check(len(value) <= maxHeaderValue && utf8.ValidString(value) && !strings.ContainsFunc(value, control) &&
		strings.TrimSpace(value) == value && value != "",
		field, fmt.Sprintf("its value must be 1 to %d bytes of text without control characters or white space at its ends", maxHeaderValue))
}

// checkAPIHeaderValue checks the value of a header for HTTP APIs.
func (r report) checkAPIHeaderValue(field, value string) {
	r.check(value != "" && len(value) <= maxHeaderValue && setting.HeaderValueProblem(value) == "",
		field, fmt.Sprintf("its value must be 1 to %d visible ASCII characters, with spaces only between them", maxHeaderValue))
}

func (r report) checkEnv(env map[string]string) {
	r.check(len(env) <= maxVariables, "env", fmt.Sprintf("must be at most %d", maxVariables))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := r.below("env")
		at.check(variableForm.MatchString(name), name, "is not a valid name of an environment variable")
		at.checkText(name, env[name], maxVariable)
	}
}

// checkPaths checks the form of declared paths; [tool.StdioPolicy] says which are allowed.
func (r report) checkPaths(field string, paths []string) {
	r.check(len(paths) <= maxPaths, field, fmt.Sprintf("must be at most %d", maxPaths))
	for i, path := range paths {
		r.checkText(indexPath(field, i), path, maxArgument)
	}
}

func (r report) checkCommand(command []string) {
	r.check(len(command) > 0 && command[0] != "", "command", "is required: the program and its arguments")
	r.check(len(command) <= maxArguments, "command", fmt.Sprintf("must be at most %d words", maxArguments))
	for i, word := range command {
		r.checkText(fmt.Sprintf("command[%d]", i), word, maxArgument)
	}
}

func (r report) checkToolSettings(transport tool.Transport, tools map[string]ToolSettings) {
	r.check(len(tools) <= maxToolSettings, "tools", fmt.Sprintf("must be at most %d", maxToolSettings))
	at := r.below("tools")
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		r.checkToolName("tools", name)
		if program := tools[name].Select; program != "" {
			r.check(transport.IsAPI(), "tools."+name+".select", "belongs to transports openapi and http-api")
			if _, err := selection.Parse(program); err != nil {
				r.add("tools."+name+".select", err.Error())
			}
		}
		at.checkPointers(name+".not_secret", tools[name].NotSecret)
		at.checkPolicy(name+".policy", tools[name].Policy)
		at.check(tools[name].Risk == "" || tools[name].Risk == RiskHigh, name+".risk", "must be high or empty")
	}
}

// checkPointers checks JSON pointers, of which none is the whole document.
func (r report) checkPointers(field string, pointers []string) {
	r.check(len(pointers) <= maxPointers, field, fmt.Sprintf("must be at most %d", maxPointers))
	for i, pointer := range pointers {
		r.checkText(indexPath(field, i), pointer, maxPointer)
		r.check(pointer != "" && jsontext.Pointer(pointer).IsValid(), indexPath(field, i), "must be a JSON pointer, such as /options/token")
	}
}

func (r report) checkToolName(field, name string) {
	r.check(name != "" && len(name) <= maxToolName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl), field, fmt.Sprintf("%q is not a valid name of a tool", name))
}

func (r report) checkTeam(field, name string) {
	unprintable := func(c rune) bool { return !strconv.IsPrint(c) }
	r.check(len(name) <= maxTeam && utf8.ValidString(name) && !strings.ContainsFunc(name, unprintable) &&
		strings.TrimSpace(name) == name, field,
		fmt.Sprintf("must be at most %d bytes of printable text without spaces at its ends", maxTeam))
}
