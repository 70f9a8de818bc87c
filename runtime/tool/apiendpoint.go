package tool

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
)

// HTTPMethod is the endpoint's method.
func (e *Endpoint) HTTPMethod() string {
	if e.Method == "" {
		return http.MethodGet
	}
	return strings.ToUpper(e.Method)
}

var pathParameter = regexp.MustCompile(`\{([^{}]*)\}`)

// AllParameters are the endpoint's parameters with their defaults filled in, those of the path that are not named included.
func (e *Endpoint) AllParameters() map[string]Parameter {
	all := maps.Clone(e.Parameters)
	if all == nil {
		all = map[string]Parameter{}
	}
	inPath := map[string]bool{} // by the API's names
	for _, found := range pathParameter.FindAllStringSubmatch(e.Path, -1) {
		inPath[found[1]] = true
	}
	named := map[string]bool{}
	for name, p := range all {
		if p.Name == "" {
			p.Name = name
		}
		if p.In == "" {
			p.In = e.place(inPath[p.Name])
		}
		if p.Type == "" {
			p.Type = "string"
		}
		if p.Required == nil {
			required := p.In == "path"
			p.Required = &required
		}
		named[p.Name] = named[p.Name] || p.In == "path"
		all[name] = p
	}
	for name := range inPath {
		if !named[name] {
			required := true
			all[name] = Parameter{In: "path", Name: name, Type: "string", Required: &required}
		}
	}
	return all
}

// place is where a parameter goes of which it is not said.
func (e *Endpoint) place(inPath bool) string {
	switch method := e.HTTPMethod(); {
	case inPath:
		return "path"
	case method == http.MethodGet, method == http.MethodHead, method == http.MethodDelete:
		return "query"
	}
	return "body"
}
