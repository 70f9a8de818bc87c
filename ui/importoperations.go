package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// importPage is how many operations a page shows, and maxIncluded how many can be chosen one by one: as many filters as a skill may have.
const (
	importPage  = 50
	maxIncluded = 200
)

// search is what narrows the list of operations.
type search struct {
	text, method, tag string
	page              int
}

func (s search) fits(o *setting.Operation) bool {
	text := strings.ToLower(s.text)
	return (s.method == "" || s.method == o.Method) && (s.tag == "" || slices.Contains(o.Tags, s.tag)) &&
		(text == "" || strings.Contains(strings.ToLower(o.Name+" "+o.Path+" "+o.Summary), text))
}

// shown are the operations of a page, and how many fit.
func (s search) shown(all []setting.Operation) (page []setting.Operation, total int) {
	var fit []setting.Operation
	for _, o := range all {
		if o.Skipped == "" && s.fits(&o) {
			fit = append(fit, o)
		}
	}
	from := min(s.page*importPage, len(fit))
	return fit[from:min(from+importPage, len(fit))], len(fit)
}

func (s search) query() string {
	q := url.Values{}
	for name, value := range map[string]string{"text": s.text, "method": s.method, "tag": s.tag} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if s.page > 0 {
		q.Set("page", strconv.Itoa(s.page))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func readSearch(value func(string) string, prefix string) search {
	page, err := strconv.Atoi(value(prefix + "page"))
	if err != nil || page < 0 || page > 1000 {
		page = 0
	}
	return search{text: clean(strings.TrimSpace(value(prefix + "text"))), method: value(prefix + "method"), tag: clean(value(prefix + "tag")), page: page}
}

// showOperations shows what a document offers.
func (u *UI) showOperations(w http.ResponseWriter, r *http.Request) {
	i, err := u.importOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.answerWithOperations(w, r, http.StatusOK, i, readSearch(r.URL.Query().Get, ""), nil)
}

func (u *UI) answerWithOperations(w http.ResponseWriter, r *http.Request, status int, i *importing, s search, wrong faults) {
	found, err := u.examination(r, i)
	if err != nil {
		u.notExamined(w, r, i, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v := i.presentOperations(found, s)
	for _, one := range wrong {
		problem := view.FormProblem{Text: one.Path + ": " + one.Message}
		if one.Path == v.Base.Name {
			v.Base.Problem = one.Message
			problem = view.FormProblem{Field: view.FieldID(v.Base.Name), Text: v.Base.Label + " " + one.Message}
		}
		v.Problems = append(v.Problems, problem)
	}
	u.render(w, r, status, view.ImportPage(u.page(r, view.SectionSkills, "Operations of "+printable(i.notes.Title), pulse), v))
}

func (i *importing) presentOperations(found *setting.Examination, s search) view.Import {
	form := apiForm{baseURL: i.Spec.BaseURL}
	v := view.Import{
		Steps: importSteps(i, stepOperations), URL: importURL(i.ID), Title: i.notes.Title, All: i.notes.All, Chosen: len(i.notes.Chosen),
		Base: form.baseField(tool.OpenAPI), Page: s.page, Search: view.ImportSearch{Text: s.text, Method: s.method, Tag: s.tag},
	}
	if len(found.Servers) > 0 {
		v.Base.Hint = "The document names " + printable(strings.Join(found.Servers[:min(3, len(found.Servers))], ", ")) + "."
	}
	if found.BaseURL == "" {
		v.Base.Required, v.Base.Hint = true, printable(strings.TrimSpace(v.Base.Hint+" "+found.BaseURLReason))
	}
	tags := map[string]int{}
	for _, o := range found.Operations {
		if o.Skipped != "" {
			v.Skipped = append(v.Skipped, view.SkippedOperation{Operation: strings.TrimSpace(o.Method + " " + o.Path), Reason: o.Skipped})
			continue
		}
		v.Total++
		if !slices.Contains(v.Search.Methods, o.Method) {
			v.Search.Methods = append(v.Search.Methods, o.Method)
		}
		for _, tag := range o.Tags {
			if tags[tag]++; tags[tag] == 1 {
				v.Search.Tags = append(v.Search.Tags, tag)
			}
		}
	}
	for _, tag := range v.Search.Tags {
		v.Tags = append(v.Tags, view.Choice{Value: tag, Word: tag, On: slices.Contains(i.notes.Tags, tag), Hint: plural(tags[tag], "operation", "operations")})
	}
	var rows []setting.Operation
	rows, v.Shown = s.shown(found.Operations)
	v.More = (s.page+1)*importPage < v.Shown
	for _, o := range rows {
		v.Rows = append(v.Rows, i.presentOperation(&o))
	}
	return v
}

func (i *importing) presentOperation(o *setting.Operation) view.ImportOperation {
	row := view.ImportOperation{
		Name: o.Name, Method: o.Method, Path: o.Path, Summary: o.Summary, Tags: strings.Join(o.Tags, ", "), NoOutput: o.NoOutputSchema,
		Chosen: slices.Contains(i.notes.Chosen, o.Name),
	}
	switch {
	case o.ReadOnly:
		row.Badges = append(row.Badges, view.Badge{Word: "reads", Icon: "standard", Level: view.Quiet, Note: "by its method"})
	case o.Method == http.MethodDelete:
		row.Badges = append(row.Badges, view.Badge{Word: "destructive", Icon: "destructive", Level: view.Warn, Note: "by its method"})
	}
	if o.Deprecated {
		row.Badges = append(row.Badges, view.Badge{Word: "deprecated", Icon: "changed", Level: view.Warn})
	}
	limits := hostile.Folded()
	if input, err := hostile.ReadPretty(o.InputSchema, limits); err == nil {
		row.Input = &input
	}
	if output, err := hostile.ReadPretty(o.OutputSchema, limits); err == nil && len(o.OutputSchema) > 0 {
		row.Output = &output
	}
	return row
}

// chooseOperations keeps what was ticked, and shows others, or goes on.
func (u *UI) chooseOperations(w http.ResponseWriter, r *http.Request) {
	i, err := u.importOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	found, err := u.examination(r, i)
	if err != nil {
		u.notExamined(w, r, i, err)
		return
	}
	at := readSearch(r.PostFormValue, "at_")
	i.readChoice(r, found, at)
	next, wrong := search{}, faults(nil)
	incomplete := i.include(found) // whatever comes next: another tab may try or save the draft as it is now
	switch do := r.PostFormValue("do"); {
	case do == "next":
		if wrong = incomplete; len(wrong) == 0 {
			if err := u.cfg.Agents.CheckSkill(i.checked()); err != nil {
				wrong, _ = faultsOf(err)
			}
		}
	case strings.HasPrefix(do, "page:"):
		next = at
		next.page, _ = strconv.Atoi(strings.TrimPrefix(do, "page:"))
	default:
		next = readSearch(r.PostFormValue, "")
	}
	if err := u.keepImport(r, i); err != nil {
		u.fail(w, r, err)
		return
	}
	switch {
	case len(wrong) > 0:
		u.answerWithOperations(w, r, http.StatusUnprocessableEntity, i, at, wrong)
	case r.PostFormValue("do") == "next":
		http.Redirect(w, r, importURL(i.ID)+"/credentials", http.StatusSeeOther)
	default:
		http.Redirect(w, r, importURL(i.ID)+next.query()+"#list-title", http.StatusSeeOther)
	}
}

// readChoice reads what was ticked on a page of operations; those of other pages stay as they are.
func (i *importing) readChoice(r *http.Request, found *setting.Examination, at search) {
	i.Spec.BaseURL = line(r, "base_url")
	before := len(i.notes.Chosen) + len(i.notes.Tags)
	i.notes.Tags = nil
	for _, tag := range r.PostForm["tags"] {
		if slices.ContainsFunc(found.Operations, func(o setting.Operation) bool { return slices.Contains(o.Tags, tag) }) && !slices.Contains(i.notes.Tags, tag) {
			i.notes.Tags = append(i.notes.Tags, tag)
		}
	}
	rows, _ := at.shown(found.Operations)
	ticked := r.PostForm["operation"]
	for _, o := range rows {
		i.notes.Chosen = slices.DeleteFunc(i.notes.Chosen, func(name string) bool { return name == o.Name })
		if slices.Contains(ticked, o.Name) {
			i.notes.Chosen = append(i.notes.Chosen, o.Name)
		}
	}
	if which := r.PostFormValue("which"); which != "" {
		i.notes.All = which != "chosen"
	}
	if i.notes.All && before == 0 && len(i.notes.Chosen)+len(i.notes.Tags) > 0 {
		i.notes.All = false // whoever ticks some means these
	}
}

// include makes filters of what was chosen.
func (i *importing) include(found *setting.Examination) (wrong faults) {
	i.Spec.Include = nil
	if i.Spec.BaseURL == "" && found.BaseURL == "" {
		wrong.add("base_url", cmp.Or(found.BaseURLReason, "is required: the document names no server"))
	}
	if i.notes.All {
		return wrong
	}
	for _, tag := range i.notes.Tags {
		i.Spec.Include = append(i.Spec.Include, tool.OperationFilter{Tag: setting.EscapePattern(tag)})
	}
	for _, o := range found.Operations {
		if !slices.Contains(i.notes.Chosen, o.Name) {
			continue
		}
		i.Spec.Include = append(i.Spec.Include, found.FilterOf(&o))
	}
	switch n := len(i.Spec.Include); {
	case n == 0:
		wrong.add("include", "choose some operations, or all of them")
	case n > maxIncluded:
		wrong.add("include", fmt.Sprintf("%d are chosen one by one, at most %d can be: choose all of a tag, or all of them", n, maxIncluded))
	}
	return wrong
}
