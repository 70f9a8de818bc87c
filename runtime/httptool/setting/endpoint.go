package setting

import (
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// MethodOf returns the endpoint's method in upper case, GET if it has none.
func MethodOf(e *tool.Endpoint) string {
	if e.Method == "" {
		return http.MethodGet
	}
	return strings.ToUpper(e.Method)
}

var pathParameter = regexp.MustCompile(`\{([^{}]*)\}`)

// ParametersOf returns the endpoint's parameters with their defaults filled in, and the path parameters that the endpoint does not list.
func ParametersOf(e *tool.Endpoint) map[string]tool.Parameter {
	all := maps.Clone(e.Parameters)
	if all == nil {
		all = map[string]tool.Parameter{}
	}
	inPath := map[string]bool{} // by name in the API
	for _, found := range pathParameter.FindAllStringSubmatch(e.Path, -1) {
		inPath[found[1]] = true
	}
	listed := map[string]bool{}
	for name, p := range all {
		if p.Name == "" {
			p.Name = name
		}
		method := MethodOf(e)
		switch {
		case p.In != "":
		case inPath[p.Name]:
			p.In = "path"
		case method == http.MethodGet, method == http.MethodHead, method == http.MethodDelete:
			p.In = "query"
		default:
			p.In = "body"
		}
		if p.Type == "" {
			p.Type = "string"
		}
		if p.Required == nil {
			required := p.In == "path"
			p.Required = &required
		}
		listed[p.Name] = listed[p.Name] || p.In == "path"
		all[name] = p
	}
	for name := range inPath {
		if !listed[name] {
			required := true
			all[name] = tool.Parameter{In: "path", Name: name, Type: "string", Required: &required}
		}
	}
	return all
}
