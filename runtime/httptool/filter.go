package httptool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// filter is an [tool.OperationFilter], compiled.
type filter struct {
	id, tag, path *regexp.Regexp // nil: any
	method        string
}

func newFilter(f tool.OperationFilter) filter {
	return filter{id: pattern(f.OperationID), tag: pattern(f.Tag), path: pattern(f.Path), method: strings.ToUpper(f.Method)}
}

func newFilters(list []tool.OperationFilter) []filter {
	filters := make([]filter, len(list))
	for i, f := range list {
		filters[i] = newFilter(f)
	}
	return filters
}

// pattern compiles one in which * stands for any characters but /, ** for any, and \* and \\ for themselves. Letters count as they are written. Empty: nil.
func pattern(p string) *regexp.Regexp {
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

// fits reports whether an operation has all that the filter asks for.
func (f filter) fits(o *operation) bool {
	tagged := func() bool { return slices.ContainsFunc(o.object.get("tags").strings(), f.tag.MatchString) }
	return (f.method == "" || f.method == o.method) && (f.path == nil || f.path.MatchString(o.path)) &&
		(f.id == nil || f.id.MatchString(o.id())) && (f.tag == nil || tagged())
}

// choose keeps the operations that an operator included and did not exclude. What is included and not there is told.
func choose(all []*operation, api *tool.API) (chosen []*operation, missing []tool.Skipped) {
	found := make([]bool, len(api.Include))
	include, exclude := newFilters(api.Include), newFilters(api.Exclude)
	for _, o := range all {
		included := len(include) == 0
		for i, f := range include {
			if f.fits(o) {
				included, found[i] = true, true
			}
		}
		excluded := slices.ContainsFunc(exclude, func(f filter) bool { return f.fits(o) })
		if included && !excluded {
			chosen = append(chosen, o)
		}
	}
	for i, f := range found {
		if !f {
			missing = append(missing, tool.Skipped{Name: fmt.Sprintf("include[%d]", i), Reason: "no operation of the document fits it"})
		}
	}
	return chosen, missing
}
