package setting

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Limits of the settings.
const (
	maxEndpoints      = 2000
	maxFilters        = 200
	maxParameters     = 200
	maxEndpointPath   = 2048
	maxEndpointText   = 4096
	maxEndpointTitle  = 200
	maxEndpointHeader = 8192
	maxPattern        = 512
	maxProblems       = 50
)

var (
	endpointName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	parameterName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	httpToken     = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
)

// Validate lists the problems of a skill's filters and endpoints. Pointers are field paths as an operator writes them:
// endpoints[0].parameters.id.in.
func Validate(a *tool.API, transport tool.Transport) []tool.Problem {
	var p problemList
	if transport == tool.OpenAPI {
		p.checkFilters("include", a.Include)
		p.checkFilters("exclude", a.Exclude)
		return p
	}
	p.check(len(a.Endpoints) > 0 && len(a.Endpoints) <= maxEndpoints, "endpoints", fmt.Sprintf("must be 1 to %d", maxEndpoints))
	if len(a.Endpoints) > maxEndpoints {
		return p
	}
	named := map[string]bool{}
	for i := range a.Endpoints {
		at := fmt.Sprintf("endpoints[%d]", i)
		p.check(!named[a.Endpoints[i].Name], at+".name", fmt.Sprintf("%q is there twice", tool.Clip(a.Endpoints[i].Name)))
		named[a.Endpoints[i].Name] = true
		p.checkEndpoint(at, &a.Endpoints[i])
	}
	return p
}

// problemList collects problems, at most maxProblems.
type problemList []tool.Problem

func (p *problemList) add(at, message string) {
	if len(*p) < maxProblems {
		*p = append(*p, tool.Problem{Pointer: at, Message: message})
	}
}

func (p *problemList) check(ok bool, at, message string) {
	if !ok {
		p.add(at, message)
	}
}

func (p *problemList) checkText(at, text string, limit int) {
	p.check(len(text) <= limit, at, fmt.Sprintf("must be at most %d bytes", limit))
	p.check(utf8.ValidString(text) && !strings.ContainsRune(text, 0), at, "must be UTF-8 without NUL")
}

func (p *problemList) checkFilters(field string, list []tool.OperationFilter) {
	p.check(len(list) <= maxFilters, field, fmt.Sprintf("must be at most %d", maxFilters))
	for i, f := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		p.check(f != tool.OperationFilter{}, at, "must say something: operation_id, tag, method or path")
		p.check(f.Method == "" || slices.Contains(allowedMethods(), strings.ToUpper(f.Method)), at+".method", methodRule)
		p.check(f.Path == "" || f.Path[0] == '/' || f.Path[0] == '*', at+".path", "must begin with / or *")
		p.checkText(at+".operation_id", f.OperationID, maxPattern)
		p.checkText(at+".tag", f.Tag, maxPattern)
		p.checkText(at+".path", f.Path, maxPattern)
	}
}

const methodRule = "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"

func allowedMethods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
}

func (p *problemList) checkEndpoint(at string, e *tool.Endpoint) {
	p.check(endpointName.MatchString(e.Name), at+".name", "must be 1 to 64 of a-z, A-Z, 0-9, _ and -")
	p.checkText(at+".title", e.Title, maxEndpointTitle)
	p.checkText(at+".description", e.Description, maxEndpointText)
	p.check(slices.Contains(allowedMethods(), MethodOf(e)), at+".method", methodRule)
	p.checkPath(at+".path", e.Path)
	p.check(e.Body == "" || e.Body == "json" || e.Body == "form" || e.Body == "multipart", at+".body", "must be json, form or multipart")
	before := len(*p)
	p.checkParameters(at, e)
	p.checkHeaders(at+".headers", e)
	if len(*p) == before {
		p.checkSchemas(at, e)
	}
}

func (p *problemList) checkPath(at, path string) {
	literal := pathParameter.ReplaceAllString(path, "x")
	switch {
	case !strings.HasPrefix(path, "/") || len(path) > maxEndpointPath:
		p.add(at, fmt.Sprintf("must begin with /, and be at most %d bytes: it is below base_url", maxEndpointPath))
	case strings.ContainsAny(literal, "?#"):
		p.add(at, "must have no query and no fragment: what goes there are parameters")
	case strings.ContainsAny(literal, "{}"):
		p.add(at, "has a brace without its other one")
	case strings.ContainsAny(literal, `\ `) || strings.ContainsFunc(literal, unicode.IsControl) || !utf8.ValidString(path):
		p.add(at, "has characters that a path may not have")
	case slices.ContainsFunc(strings.Split(literal, "/"), func(s string) bool { return s == "." || s == ".." }):
		p.add(at, "must have no . and no .. in it")
	}
	seen := map[string]bool{}
	for _, found := range pathParameter.FindAllStringSubmatch(path, -1) {
		p.check(found[1] != "", at, "has {} without a name in it")
		p.check(!seen[found[1]], at, fmt.Sprintf("has {%s} twice", tool.Clip(found[1])))
		seen[found[1]] = true
	}
}

func (p *problemList) checkParameters(at string, e *tool.Endpoint) {
	p.check(len(e.Parameters) <= maxParameters, at+".parameters", fmt.Sprintf("must be at most %d", maxParameters))
	all := ParametersOf(e)
	if len(all) > maxParameters {
		return
	}
	inPath := map[string]bool{}
	for _, found := range pathParameter.FindAllStringSubmatch(e.Path, -1) {
		inPath[found[1]] = true
		if given, ok := e.Parameters[found[1]]; ok && given.Name == "" && given.In != "" && given.In != "path" {
			p.add(at+".parameters."+found[1]+".in", fmt.Sprintf("must be path: the path has {%s}. Another parameter of that name gets an argument of another, and its name as name", found[1]))
		}
	}
	places := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		where := at + ".parameters." + tool.Clip(name)
		parameter := all[name]
		p.check(parameterName.MatchString(name), where, "must be named with 1 to 64 of a-z, A-Z, 0-9, _, . and -")
		p.checkParameter(where, e, &parameter, inPath)
		place := parameter.In + " " + parameter.Name
		if parameter.In == "header" {
			place = "header " + textproto.CanonicalMIMEHeaderKey(parameter.Name)
		}
		p.check(places[place] == "", where, "goes to the same place as "+places[place])
		places[place] = tool.Clip(name)
	}
}

func (p *problemList) checkParameter(at string, e *tool.Endpoint, parameter *tool.Parameter, inPath map[string]bool) {
	types := []string{"string", "number", "integer", "boolean", "array", "object"}
	p.check(slices.Contains(types, parameter.Type), at+".type", "must be string, number, integer, boolean, array or object")
	p.checkText(at+".name", parameter.Name, maxPattern)
	p.checkText(at+".description", parameter.Description, maxEndpointText)
	switch parameter.In {
	case "path":
		p.check(inPath[parameter.Name], at+".in", fmt.Sprintf("the path has no {%s}", tool.Clip(parameter.Name)))
		p.check(*parameter.Required, at+".required", "must be true: the path needs it")
	case "query":
	case "header":
		canonical := textproto.CanonicalMIMEHeaderKey(parameter.Name)
		p.check(httpToken.MatchString(parameter.Name), at+".name", "is no HTTP header name")
		p.check(!IsReservedHeader(parameter.Name) && canonical != "Authorization" && canonical != "Content-Type", at+".name", "is a header that Holdpoint sets itself")
	case "cookie":
		p.check(httpToken.MatchString(parameter.Name), at+".name", "is no name of a cookie")
	case "body":
		method := MethodOf(e)
		p.check(method != http.MethodGet && method != http.MethodHead, at+".in", "a "+method+" has no body")
	default:
		p.add(at+".in", "must be path, query, header, cookie or body")
	}
}

func (p *problemList) checkHeaders(at string, e *tool.Endpoint) {
	p.check(len(e.Headers) <= maxParameters, at, fmt.Sprintf("must be at most %d", maxParameters))
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		value, where := e.Headers[name], at+"."+tool.Clip(name)
		p.check(httpToken.MatchString(name), where, "is no HTTP header name")
		p.check(value != "" && len(value) <= maxEndpointHeader && HeaderValueProblem(value) == "",
			where, fmt.Sprintf("its value must be 1 to %d visible ASCII characters, with spaces only between them", maxEndpointHeader))
		switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
		case canonical == "Authorization":
			p.add(where, "is a secret: it belongs to auth, or to the skill's headers")
		case IsReservedHeader(name):
			p.add(where, "is a header that Holdpoint sets itself")
		case canonical == "Content-Type":
			p.check((e.Body == "" || e.Body == "json") && isJSONType(value), where, "must be a media type of JSON, of a JSON body: body says all others")
		}
		for _, parameter := range ParametersOf(e) {
			p.check(parameter.In != "header" || !strings.EqualFold(parameter.Name, name), where, "is a parameter, too")
		}
	}
}

func isJSONType(media string) bool {
	base, _, _ := strings.Cut(media, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
}
