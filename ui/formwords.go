package ui

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/view"
)

// faults are what is wrong with a form that was sent, by the paths of its fields in holdpoint.yaml.
type faults []agent.FieldProblem

func (f *faults) add(path, message string) {
	*f = append(*f, agent.FieldProblem{Path: path, Message: message})
}

// duration reads one. Nothing at all is no duration.
func (f *faults) duration(path, text string) *agent.Duration {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		f.add(path, "must be a duration such as 90s, 5m or 1h30m")
		return nil
	}
	return new(agent.Duration(d))
}

// optionalDuration reads one. Nothing at all is zero.
func (f *faults) optionalDuration(path, text string) *agent.Duration {
	if strings.TrimSpace(text) == "" {
		return new(agent.Duration)
	}
	return f.duration(path, text)
}

// number reads a whole number. Nothing at all is zero.
func (f *faults) number(path, text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		f.add(path, "must be a whole number")
	}
	return n
}

// decimal reads a number that may have a fraction. Nothing at all is zero.
func (f *faults) decimal(path, text string) float64 {
	if text == "" {
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		f.add(path, "must be a number such as 3 or 0.25")
		return 0
	}
	return x
}

// faultsOf are those that the registry found. False: the error is another one.
func faultsOf(err error) (faults, bool) {
	var invalid *agent.InvalidError
	switch {
	case errors.As(err, &invalid):
		return invalid.Problems, true
	case errors.Is(err, agent.ErrExists):
		return faults{{Path: "name", Message: "is taken by another"}}, true
	}
	return nil, false
}

// tell puts the faults into a form, each at its field, and all of them into the summary.
func (f *faults) tell(form *view.Form, lost bool) {
	for _, one := range *f {
		field := findField(form, one.Path)
		summary := view.FormProblem{Text: one.Path + ": " + one.Message}
		if field != nil {
			summary.Field, summary.Text = view.FieldID(field.Name), field.Label+" "+one.Message
			if name := nameWithin(field, one.Path); name != "" {
				summary.Text = field.Label + ", " + name + ": " + one.Message
			}
			tellField(field, one)
		}
		form.Problems = append(form.Problems, summary)
	}
	if lost && len(*f) > 0 {
		form.Problems = append(form.Problems, secretsLost())
	}
}

func secretsLost() view.FormProblem {
	return view.FormProblem{Text: "Secrets that you typed are not sent back to the browser: type them again."}
}

// nameWithin is which of a field's names a path is of; empty: the field's own path.
func nameWithin(field *view.Field, path string) string {
	if field.Kind != view.FieldPairs {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, field.Name), ".")
}

// findField is the field that a path is of: url, command of command[2], headers of headers.X-Team.
func findField(form *view.Form, path string) *view.Field {
	for i := range form.Parts {
		for j := range form.Parts[i].Fields {
			field := &form.Parts[i].Fields[j]
			if rest, ok := strings.CutPrefix(path, field.Name); ok && (rest == "" || rest[0] == '[' || rest[0] == '.' && field.Kind == view.FieldPairs) {
				return field
			}
		}
	}
	return nil
}

func tellField(field *view.Field, fault agent.FieldProblem) {
	name := nameWithin(field, fault.Path)
	for i := range field.Pairs {
		if p := &field.Pairs[i]; name != "" && http.CanonicalHeaderKey(p.Name) == http.CanonicalHeaderKey(name) {
			p.Problem = joined(p.Problem, fault.Message)
			return
		}
	}
	if name != "" {
		fault.Message = name + " " + fault.Message
	}
	field.Problem = joined(field.Problem, fault.Message)
}

func joined(before, more string) string {
	if before != "" {
		return before + "; " + more
	}
	return more
}

// pair is a name with a secret value, as a form was sent with it.
type pair struct {
	name, value  string
	kept, remove bool
}

// readPairs reads those of a field; known are the names that have a value already.
func readPairs(r *http.Request, field string, known []string) []pair {
	names, values := r.PostForm[field+"_name"], r.PostForm[field+"_value"]
	var list []pair
	for i := range min(len(names), len(values)) {
		p := pair{name: strings.TrimSpace(names[i]), value: values[i]}
		for _, one := range known {
			p.kept = p.kept || one == p.name
		}
		for _, one := range r.PostForm[field+"_remove"] {
			p.remove = p.remove || p.kept && one == p.name
		}
		if p.name != "" || p.value != "" {
			list = append(list, p)
		}
	}
	return list
}

// given checks pairs and makes a patch of them: nil removes a value.
func (f *faults) given(field string, pairs []pair) map[string]*string {
	patch := map[string]*string{}
	for _, p := range pairs {
		_, twice := patch[p.name]
		switch {
		case p.name == "":
			f.add(field, "have a value without a name")
		case twice:
			f.add(field+"."+p.name, "is named twice")
		case p.remove:
			patch[p.name] = nil
		case p.value != "":
			patch[p.name] = new(p.value)
		case !p.kept:
			f.add(field+"."+p.name, "has no value")
		}
	}
	return patch
}

// spareFields is how many more pairs a form has room for.
const spareFields = 2

// presentPairs shows the names, and never the values.
func presentPairs(pairs []pair) []view.Pair {
	var list []view.Pair
	for _, p := range pairs {
		list = append(list, view.Pair{Name: p.name, Kept: p.kept, Removed: p.remove})
	}
	return append(list, make([]view.Pair, spareFields)...)
}

func typed(pairs []pair) bool {
	for _, p := range pairs {
		if p.value != "" {
			return true
		}
	}
	return false
}

// text is a field's value as it was meant: with the line breaks of this side.
func text(r *http.Request, name string) string {
	return strings.ReplaceAll(r.PostFormValue(name), "\r\n", "\n")
}

// line is a value of one line.
func line(r *http.Request, name string) string { return strings.TrimSpace(r.PostFormValue(name)) }

// ticked reports whether a box was ticked.
func ticked(r *http.Request, name string) bool { return r.PostFormValue(name) != "" }
