package shell

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ShowConflict says in a form that someone else saved a change, and shows the current value beside each field that differs.
// now has the current parts. secretsLost says that the form had secrets, which it does not keep.
func ShowConflict(form *view.Form, now []view.FormPart, secretsLost bool) {
	form.Problems = append(form.Problems, view.FormProblem{Text: text.FormChangedElsewhere()})
	differs := false
	for _, part := range now {
		for _, present := range part.Fields {
			field := findField(form, present.Name)
			if field == nil || rawValue(field) == rawValue(&present) {
				continue
			}
			differs = true
			field.Now = &view.NowValue{Text: valueWords(&present)}
			form.Problems = append(form.Problems, view.FormProblem{
				Field: view.FieldID(field.Name), Text: text.FormFieldChanged(field.Label),
			})
		}
	}
	if !differs {
		form.Problems = append(form.Problems, view.FormProblem{Text: text.FormNothingDiffers()})
	}
	if secretsLost {
		form.Problems = append(form.Problems, view.FormProblem{Text: text.FormSecretsLost()})
	}
}

// rawValue returns the value of a field for comparison, or "" for a secret.
func rawValue(f *view.Field) string {
	switch f.Kind {
	case view.FieldSecret, view.FieldSealed, view.FieldHidden:
		return ""
	case view.FieldCheck:
		return strconv.FormatBool(f.On)
	case view.FieldPairs, view.FieldNames, view.FieldList:
		return strings.Join(chosenNames(f), "\n")
	default:
		return f.Value
	}
}

// chosenNames returns the names of a field's pairs and the values of its chosen choices.
func chosenNames(f *view.Field) []string {
	var names []string
	for _, p := range f.Pairs {
		if p.Name != "" && !p.Removed {
			names = append(names, p.Name)
		}
	}
	for _, c := range f.Choices {
		if c.On {
			names = append(names, c.Value)
		}
	}
	return names
}

// valueWords returns the value of a field as text.
func valueWords(f *view.Field) text.Message {
	switch f.Kind {
	case view.FieldCheck:
		if f.On {
			return text.FormTicked()
		}
		return text.FormNotTicked()
	case view.FieldPairs, view.FieldList:
		return text.Literal(strings.Join(chosenNames(f), ", "))
	case view.FieldNames:
		var words []text.Message
		for _, c := range f.Choices {
			if c.On {
				words = append(words, c.Word)
			}
		}
		return text.Join(", ", words...)
	case view.FieldSelect:
		for _, c := range f.Choices {
			if c.Value == f.Value {
				return c.Word
			}
		}
	default:
	}
	return text.Literal(f.Value)
}

// Faults are the invalid fields of a form, by their paths in holdpoint.yaml.
type Faults []fault.Field

// Add adds a fault of the field at a path.
func (f *Faults) Add(path, message string) {
	*f = append(*f, fault.Field{Name: path, Expected: message})
}

// Duration reads a duration; an empty text is a fault.
func (f *Faults) Duration(path, text string) *agent.Duration {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		f.Add(path, "must be a duration such as 90s, 5m or 1h30m")
		return nil
	}
	return new(agent.Duration(d))
}

// OptionalDuration reads a duration; an empty text is zero.
func (f *Faults) OptionalDuration(path, text string) *agent.Duration {
	if strings.TrimSpace(text) == "" {
		return new(agent.Duration)
	}
	return f.Duration(path, text)
}

// Escalation reads the steps of an escalation, one in a line.
func (f *Faults) Escalation(path, text string) []agent.EscalationStep {
	steps, err := approval.ParseEscalation(text)
	if err != nil {
		f.Add(path, err.Error())
	}
	return append([]agent.EscalationStep{}, steps...) // empty removes all
}

// Number reads a whole number; an empty text is zero.
func (f *Faults) Number(path, text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		f.Add(path, "must be a whole number")
	}
	return n
}

// Decimal reads a decimal number; an empty text is zero.
func (f *Faults) Decimal(path, text string) float64 {
	if text == "" {
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		f.Add(path, "must be a number such as 3 or 0.25")
		return 0
	}
	return x
}

// FaultsOf returns the faults that the registry found. It reports false for any other error.
func FaultsOf(err error) (Faults, bool) {
	var invalid *fault.InvalidError
	switch {
	case errors.As(err, &invalid):
		return invalid.Fields, true
	case errors.Is(err, agent.ErrExists):
		return Faults{{Name: "name", Expected: "is taken by another"}}, true
	}
	return nil, false
}

// ShowIn shows the faults in a form: each at its field, and all in the summary. secretsLost is that of [ShowConflict].
func (f *Faults) ShowIn(form *view.Form, secretsLost bool) {
	for _, one := range *f {
		field := findField(form, one.Name)
		summary := view.FormProblem{Text: text.FormUnknownInvalid(one.Name, text.Fault(one.Expected))}
		if field != nil {
			summary.Field, summary.Text = view.FieldID(field.Name), text.FormFieldInvalid(field.Label, text.Fault(one.Expected))
			if name := findPairName(field, one.Name); name != "" {
				summary.Text = text.FormPairInvalid(field.Label, name, text.Fault(one.Expected))
			}
			showFault(field, one)
		}
		form.Problems = append(form.Problems, summary)
	}
	if secretsLost && len(*f) > 0 {
		form.Problems = append(form.Problems, view.FormProblem{Text: text.FormSecretsLost()})
	}
}

// findPairName returns the name of the pair in a path, or "" if the path is the field's own.
func findPairName(field *view.Field, path string) string {
	if field.Kind != view.FieldPairs {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, field.Name), ".")
}

// findField returns the field of a path: url, command for command[2], headers for headers.X-Team.
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

func showFault(field *view.Field, invalid fault.Field) {
	name := findPairName(field, invalid.Name)
	for i := range field.Pairs {
		if p := &field.Pairs[i]; name != "" && http.CanonicalHeaderKey(p.Name) == http.CanonicalHeaderKey(name) {
			p.Problem = joinProblems(p.Problem, invalid.Expected)
			return
		}
	}
	if name != "" {
		invalid.Expected = name + " " + invalid.Expected
	}
	field.Problem = text.Join("; ", field.Problem, text.Fault(invalid.Expected))
}

func joinProblems(before, more string) string {
	if before != "" {
		return before + "; " + more
	}
	return more
}

// Pair is a name with a secret value in a form.
type Pair struct {
	Name, value  string
	Kept, remove bool
}

// ReadPairs reads the pairs of a field; known names already have a value.
func ReadPairs(r *http.Request, field string, known []string) []Pair {
	names, values := r.PostForm[field+"_name"], r.PostForm[field+"_value"]
	var list []Pair
	for i := range min(len(names), len(values)) {
		p := Pair{Name: strings.TrimSpace(names[i]), value: values[i]}
		for _, one := range known {
			p.Kept = p.Kept || one == p.Name
		}
		for _, one := range r.PostForm[field+"_remove"] {
			p.remove = p.remove || p.Kept && one == p.Name
		}
		if p.Name != "" || p.value != "" {
			list = append(list, p)
		}
	}
	return list
}

// Given checks pairs and returns a patch, in which nil removes a value.
func (f *Faults) Given(field string, pairs []Pair) map[string]*string {
	patch := map[string]*string{}
	for _, p := range pairs {
		_, twice := patch[p.Name]
		switch {
		case p.Name == "":
			f.Add(field, "have a value without a name")
		case twice:
			f.Add(field+"."+p.Name, "is named twice")
		case p.remove:
			patch[p.Name] = nil
		case p.value != "":
			patch[p.Name] = new(p.value)
		case !p.Kept:
			f.Add(field+"."+p.Name, "has no value")
		}
	}
	return patch
}

// spareFields is the number of empty pairs in a form.
const spareFields = 2

// PresentPairs returns the names without the values.
func PresentPairs(pairs []Pair) []view.Pair {
	var list []view.Pair
	for _, p := range pairs {
		list = append(list, view.Pair{Name: p.Name, Kept: p.Kept, Removed: p.remove})
	}
	return append(list, make([]view.Pair, spareFields)...)
}

// Typed reports whether a value was typed.
func Typed(pairs []Pair) bool {
	for _, p := range pairs {
		if p.value != "" {
			return true
		}
	}
	return false
}

// Text returns the value of a field with Unix line breaks.
func Text(r *http.Request, name string) string {
	return strings.ReplaceAll(r.PostFormValue(name), "\r\n", "\n")
}

// Line returns the value of a field of one line.
func Line(r *http.Request, name string) string { return strings.TrimSpace(r.PostFormValue(name)) }

// Ticked reports whether a box was ticked.
func Ticked(r *http.Request, name string) bool { return r.PostFormValue(name) != "" }

// AttentionPart asks for teams and the steps of an escalation.
func AttentionPart(team, escalateTo, escalation string, teamHint text.Message) view.FormPart {
	return view.FormPart{Title: text.FormAttention(), Fields: []view.Field{
		{
			Name: "team", Label: text.FormTeam(), Kind: view.FieldLine, Value: team,
			Hint: teamHint,
		},
		{
			Name: "escalate_to", Label: text.FormEscalationTeam(), Kind: view.FieldLine, Value: escalateTo,
			Hint: text.FormEscalationTeamHint(),
		},
		{
			Name: "escalation", Label: text.FormEscalation(), Kind: view.FieldArea, Value: escalation, Rows: 3, Code: true,
			Example: "2m: payments\n50%: duty, person:ann@example.com", Hint: text.FormEscalationHint(),
		},
	}}
}

// ReadPolicyField returns a field that chooses an approval policy.
func ReadPolicyField(ctx context.Context, agents *agent.Service, value string, hint text.Message) (view.Field, error) {
	policies, err := agents.ListPolicies(ctx)
	choices := []view.Choice{{Word: text.PoliciesFieldNone()}}
	for i := range policies {
		choices = append(choices, view.Choice{Value: policies[i].Name, Word: text.Literal(policies[i].Name)})
	}
	if !slices.ContainsFunc(choices, func(c view.Choice) bool { return c.Value == value }) {
		choices = append(choices, view.Choice{Value: value, Word: text.Literal(value)})
	}
	return view.Field{Name: "policy", Label: text.PoliciesField(), Kind: view.FieldSelect, Value: value, Choices: choices, Hint: hint}, err
}

// Submit saves a form. save gets the faults found so far, so that the registry adds its own and saves nothing, and returns the
// address of the next page. again shows the form with its faults, or with status 409 after a conflicting change.
func (sh *Shell) Submit(w http.ResponseWriter, r *http.Request, wrong Faults, save func(known Faults) (string, error), again func(int, Faults)) {
	next, err := save(wrong)
	known, ok := FaultsOf(err)
	switch {
	case err == nil:
		Redirect(w, r, next)
	case errors.Is(err, agent.ErrChanged):
		again(http.StatusConflict, nil)
	case ok:
		again(http.StatusUnprocessableEntity, known)
	default:
		sh.Fail(w, r, err)
	}
}

// noRevision is a revision that does not exist.
const noRevision = -1

// RevisionOf reads the revision that a form was made for. A form without one matches no revision.
func RevisionOf(r *http.Request) *int64 {
	revision, err := strconv.ParseInt(r.PostFormValue("revision"), 10, 64)
	if err != nil {
		revision = noRevision
	}
	return &revision
}

// RevisionText writes a revision for the field of a form.
func RevisionText(revision int64) string { return strconv.FormatInt(revision, 10) }
