package text

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/feature/plural"
)

// Fault returns what is wrong with an input, as a service says it in English, in the language of its reader. The texts of the section "fault" are those of
// services; what it does not have stays English.
func Fault(said string) Message {
	if at := faultPlace.FindStringSubmatch(said); at != nil {
		switch problem := Fault(at[1]); {
		case at[3] == "":
			return FormAtLine(problem, at[2])
		case at[4] == "":
			return FormAtPart(problem, at[2], at[3])
		default:
			return FormAtField(problem, at[2], at[3], at[4])
		}
	}
	for _, f := range faults() {
		if found := f.pattern.FindStringSubmatch(said); found != nil {
			args := make([]argument, len(f.arguments))
			for i, name := range f.arguments {
				args[i] = argument{name, found[i+1]}
			}
			return newMessage(f.key, args...)
		}
	}
	return Literal(said)
}

// faultPlace recognizes where an error is, in a field with several lines.
var faultPlace = regexp.MustCompile(`(?s)^(.+) \(line (\d+)(?:, part (\d+)(?:, (\w+))?)?\)$`)

// faultPattern recognizes a text of a service.
type faultPattern struct {
	key       string
	pattern   *regexp.Regexp
	arguments []string
	literals  int // characters
}

// faults are the patterns of the section "fault", those with the longest texts first.
var faults = sync.OnceValue(func() []faultPattern { //nolint:gochecknoglobals // computed once
	var list []faultPattern
	for key, e := range catalogs()[source].texts {
		if !strings.HasPrefix(key, faultSection+".") {
			continue
		}
		f := faultPattern{key: key}
		var pattern strings.Builder
		for _, p := range e.forms[plural.Other] {
			if p.Argument == "" {
				pattern.WriteString(regexp.QuoteMeta(p.Literal))
				f.literals += len(p.Literal)
				continue
			}
			pattern.WriteString("(.+?)")
			f.arguments = append(f.arguments, p.Argument)
		}
		f.pattern = regexp.MustCompile(`(?s)^` + pattern.String() + `$`)
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b faultPattern) int {
		return cmp.Or(cmp.Compare(b.literals, a.literals), cmp.Compare(a.key, b.key))
	})
	return list
})

const faultSection = "fault"
