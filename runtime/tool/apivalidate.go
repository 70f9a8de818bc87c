package tool

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
)

// Bounds of what an operator says of an HTTP API.
const (
	maxEndpoints      = 2000
	maxFilters        = 200
	maxParameters     = 200
	maxEndpointPath   = 2048
	maxEndpointText   = 4096
	maxEndpointTitle  = 200
	maxEndpointHeader = 8192
	maxPattern        = 512
)

var (
	endpointName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	parameterName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	httpToken     = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
)

// Problems lists what is wrong with the filters and the endpoints of a skill. Pointers are paths of fields, as an operator writes them:
// endpoints[0].parameters.id.in.
func (a *API) Problems(transport Transport) []Problem {
	var p problems
	if transport == OpenAPI {
		p.filters("include", a.Include)
		p.filters("exclude", a.Exclude)
		return p
	}
	p.check(len(a.Endpoints) > 0 && len(a.Endpoints) <= maxEndpoints, "endpoints", fmt.Sprintf("must be 1 to %d", maxEndpoints))
	if len(a.Endpoints) > maxEndpoints {
		return p
	}
	named := map[string]bool{}
	for i := range a.Endpoints {
		at := fmt.Sprintf("endpoints[%d]", i)
		p.check(!named[a.Endpoints[i].Name], at+".name", fmt.Sprintf("%q is there twice", clip(a.Endpoints[i].Name)))
		named[a.Endpoints[i].Name] = true
		p.endpoint(at, &a.Endpoints[i])
	}
	return p
}

type problems []Problem

func (p *problems) add(at, message string) {
	if len(*p) < maxProblems {
		*p = append(*p, Problem{at, message})
	}
}

func (p *problems) check(ok bool, at, message string) {
	if !ok {
		p.add(at, message)
	}
}

func (p *problems) text(at, text string, limit int) {
	p.check(len(text) <= limit, at, fmt.Sprintf("must be at most %d bytes", limit))
	p.check(utf8.ValidString(text) && !strings.ContainsRune(text, 0), at, "must be UTF-8 without NUL")
}

func (p *problems) filters(field string, list []OperationFilter) {
	p.check(len(list) <= maxFilters, field, fmt.Sprintf("must be at most %d", maxFilters))
	for i, f := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		p.check(f != OperationFilter{}, at, "must say something: operation_id, tag, method or path")
		p.check(f.Method == "" || slices.Contains(apiMethods(), strings.ToUpper(f.Method)), at+".method", methodRule)
		p.check(f.Path == "" || f.Path[0] == '/' || f.Path[0] == '*', at+".path", "must begin with / or *")
		p.text(at+".operation_id", f.OperationID, maxPattern)
		p.text(at+".tag", f.Tag, maxPattern)
		p.text(at+".path", f.Path, maxPattern)
	}
}

const methodRule = "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"

func apiMethods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
}

func (p *problems) endpoint(at string, e *Endpoint) {
	p.check(endpointName.MatchString(e.Name), at+".name", "must be 1 to 64 of a-z, A-Z, 0-9, _ and -")
	p.text(at+".title", e.Title, maxEndpointTitle)
	p.text(at+".description", e.Description, maxEndpointText)
	p.check(slices.Contains(apiMethods(), e.HTTPMethod()), at+".method", methodRule)
	p.path(at+".path", e.Path)
	p.check(e.Body == "" || e.Body == "json" || e.Body == "form" || e.Body == "multipart", at+".body", "must be json, form or multipart")
	before := len(*p)
	p.parameters(at, e)
	p.endpointHeaders(at+".headers", e)
	if len(*p) == before {
		p.schemas(at, e)
	}
}

// path checks a path template.
func (p *problems) path(at, path string) {
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
		p.check(!seen[found[1]], at, fmt.Sprintf("has {%s} twice", clip(found[1])))
		seen[found[1]] = true
	}
}

func (p *problems) parameters(at string, e *Endpoint) {
	p.check(len(e.Parameters) <= maxParameters, at+".parameters", fmt.Sprintf("must be at most %d", maxParameters))
	all := e.AllParameters()
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
		where := at + ".parameters." + clip(name)
		parameter := all[name]
		p.check(parameterName.MatchString(name), where, "must be named with 1 to 64 of a-z, A-Z, 0-9, _, . and -")
		p.parameter(where, e, &parameter, inPath)
		place := parameter.In + " " + parameter.Name
		if parameter.In == "header" {
			place = "header " + textproto.CanonicalMIMEHeaderKey(parameter.Name)
		}
		p.check(places[place] == "", where, "goes to the same place as "+places[place])
		places[place] = clip(name)
	}
}

func (p *problems) parameter(at string, e *Endpoint, parameter *Parameter, inPath map[string]bool) {
	types := []string{"string", "number", "integer", "boolean", "array", "object"}
	p.check(slices.Contains(types, parameter.Type), at+".type", "must be string, number, integer, boolean, array or object")
	p.text(at+".name", parameter.Name, maxPattern)
	p.text(at+".description", parameter.Description, maxEndpointText)
	switch parameter.In {
	case "path":
		p.check(inPath[parameter.Name], at+".in", fmt.Sprintf("the path has no {%s}", clip(parameter.Name)))
		p.check(*parameter.Required, at+".required", "must be true: the path needs it")
	case "query":
	case "header":
		canonical := textproto.CanonicalMIMEHeaderKey(parameter.Name)
		p.check(httpToken.MatchString(parameter.Name), at+".name", "is no HTTP header name")
		p.check(!ReservedHeader(parameter.Name) && canonical != "Authorization" && canonical != "Content-Type", at+".name", "is a header that Holdpoint sets itself")
	case "cookie":
		p.check(httpToken.MatchString(parameter.Name), at+".name", "is no name of a cookie")
	case "body":
		method := e.HTTPMethod()
		p.check(method != http.MethodGet && method != http.MethodHead, at+".in", "a "+method+" has no body")
	default:
		p.add(at+".in", "must be path, query, header, cookie or body")
	}
}

func (p *problems) endpointHeaders(at string, e *Endpoint) {
	p.check(len(e.Headers) <= maxParameters, at, fmt.Sprintf("must be at most %d", maxParameters))
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		value, where := e.Headers[name], at+"."+clip(name)
		p.check(httpToken.MatchString(name), where, "is no HTTP header name")
		p.check(value != "" && len(value) <= maxEndpointHeader && HeaderValueProblem(value) == "",
			where, fmt.Sprintf("its value must be 1 to %d visible ASCII characters, with spaces only between them", maxEndpointHeader))
		switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
		case canonical == "Authorization":
			p.add(where, "is a secret: it belongs to auth, or to the skill's headers")
		case ReservedHeader(name):
			p.add(where, "is a header that Holdpoint sets itself")
		case canonical == "Content-Type":
			p.check((e.Body == "" || e.Body == "json") && isJSON(value), where, "must be a media type of JSON, of a JSON body: body says all others")
		}
		for _, parameter := range e.AllParameters() {
			p.check(parameter.In != "header" || !strings.EqualFold(parameter.Name, name), where, "is a parameter, too")
		}
	}
}

func isJSON(media string) bool {
	base, _, _ := strings.Cut(media, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
}
