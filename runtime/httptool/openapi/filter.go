package openapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// filter is a compiled [tool.OperationFilter].
type filter struct {
	id, tag, path *regexp.Regexp // nil: any
	method        string
}

func compileFilters(list []tool.OperationFilter) []filter {
	filters := make([]filter, len(list))
	for i, f := range list {
		filters[i] = filter{
			id: compilePattern(f.OperationID), tag: compilePattern(f.Tag), path: compilePattern(f.Path), method: strings.ToUpper(f.Method),
		}
	}
	return filters
}

// compilePattern compiles a pattern: * matches any characters except /, ** any characters, and \* and \\ themselves. Case matters.
// An empty pattern is nil.
func compilePattern(p string) *regexp.Regexp {
	if p == "" {
		return nil
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '\\' && i+1 < len(p) && (p[i+1] == '*' || p[i+1] == '\\'):
			i++
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		case strings.HasPrefix(p[i:], "**"):
			i++
			b.WriteString(`.*`)
		case p[i] == '*':
			b.WriteString(`[^/]*`)
		default:
			n := i + 1
			for n < len(p) && p[n] != '*' && p[n] != '\\' {
				n++
			}
			b.WriteString(regexp.QuoteMeta(p[i:n]))
			i = n - 1
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// matchesOperation reports whether an operation matches all members of the filter.
func (f filter) matchesOperation(o *operation) bool {
	tagged := func() bool { return slices.ContainsFunc(o.object.get("tags").strings(), f.tag.MatchString) }
	return (f.method == "" || f.method == o.method) && (f.path == nil || f.path.MatchString(o.path)) &&
		(f.id == nil || f.id.MatchString(o.id())) && (f.tag == nil || tagged())
}

// selectOperations returns the operations that an operator included and did not exclude, and the included filters without a match.
func selectOperations(all []*operation, api *tool.API) (selected []*operation, missing []tool.Skipped) {
	found := make([]bool, len(api.Include))
	include, exclude := compileFilters(api.Include), compileFilters(api.Exclude)
	for _, o := range all {
		included := len(include) == 0
		for i, f := range include {
			if f.matchesOperation(o) {
				included, found[i] = true, true
			}
		}
		excluded := slices.ContainsFunc(exclude, func(f filter) bool { return f.matchesOperation(o) })
		if included && !excluded {
			selected = append(selected, o)
		}
	}
	for i, f := range found {
		if !f {
			missing = append(missing, tool.Skipped{Name: fmt.Sprintf("include[%d]", i), Reason: "no operation of the document fits it"})
		}
	}
	return selected, missing
}
