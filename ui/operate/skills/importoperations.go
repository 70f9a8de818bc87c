package skills

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
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// importPage is the number of operations on a page. maxIncluded is the number that can be chosen one by one: the number of filters that a
// skill may have.
const (
	importPage  = 50
	maxIncluded = 200
)

// search has the criteria for the list of operations.
type search struct {
	text, method, tag string
	page              int
}

func (s search) matchesOperation(o *setting.Operation) bool {
	words := strings.ToLower(s.text)
	return (s.method == "" || s.method == o.Method) && (s.tag == "" || slices.Contains(o.Tags, s.tag)) &&
		(words == "" || strings.Contains(strings.ToLower(o.Name+" "+o.Path+" "+o.Summary), words))
}

// listPage returns the operations of a page, and the number of matches.
func (s search) listPage(all []setting.Operation) (page []setting.Operation, total int) {
	var fit []setting.Operation
	for _, o := range all {
		if o.Skipped == "" && s.matchesOperation(&o) {
			fit = append(fit, o)
		}
	}
	from := min(s.page*importPage, len(fit))
	return fit[from:min(from+importPage, len(fit))], len(fit)
}

func (s search) encodeQuery() string {
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
	return search{text: shell.Clean(strings.TrimSpace(value(prefix + "text"))), method: value(prefix + "method"), tag: shell.Clean(value(prefix + "tag")), page: page}
}

// ShowOperations shows the operations of a document.
func (h *ImportHandler) ShowOperations(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithOperations(w, r, http.StatusOK, i, readSearch(r.URL.Query().Get, ""), nil)
}

func (h *ImportHandler) answerWithOperations(w http.ResponseWriter, r *http.Request, status int, i *importing, s search, wrong shell.Faults) {
	found, err := h.examineDocument(r, i)
	if err != nil {
		h.answerUnexamined(w, r, i, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v := i.presentOperations(found, s)
	for _, one := range wrong {
		problem := view.FormProblem{Text: text.FormUnknownInvalid(one.Name, text.Fault(one.Expected))}
		if one.Name == v.Base.Name {
			v.Base.Problem = text.Literal(one.Expected)
			problem = view.FormProblem{Field: view.FieldID(v.Base.Name), Text: text.FormFieldInvalid(v.Base.Label, text.Fault(one.Expected))}
		}
		v.Problems = append(v.Problems, problem)
	}
	h.Render(w, r, status, ImportPage(h.Page(r, view.SectionSkills, text.SkillImportOperationsPage(view.Printable(i.notes.Title)), pulse), v))
}

func (i *importing) presentOperations(found *setting.Examination, s search) Import {
	form := apiForm{baseURL: i.Spec.BaseURL}
	v := Import{
		Steps: presentSteps(i, stepOperations), URL: importURL(i.ID), Title: i.notes.Title, All: i.notes.All, Chosen: len(i.notes.Chosen),
		Base: form.baseField(tool.OpenAPI), Page: s.page, Search: ImportSearch{Text: s.text, Method: s.method, Tag: s.tag},
	}
	if len(found.Servers) > 0 {
		v.Base.Hint = text.SkillImportServers(view.Printable(strings.Join(found.Servers[:min(3, len(found.Servers))], ", ")))
	}
	if found.BaseURL == "" {
		v.Base.Required, v.Base.Hint = true, text.Join(" ", v.Base.Hint, text.Literal(view.Printable(found.BaseURLReason)))
	}
	tags := map[string]int{}
	for _, o := range found.Operations {
		if o.Skipped != "" {
			v.Skipped = append(v.Skipped, SkippedOperation{Operation: strings.TrimSpace(o.Method + " " + o.Path), Reason: o.Skipped})
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
		v.Tags = append(v.Tags, view.Choice{Value: tag, Word: text.Literal(tag), On: slices.Contains(i.notes.Tags, tag), Hint: text.SkillImportOperations(tags[tag])})
	}
	var rows []setting.Operation
	rows, v.Shown = s.listPage(found.Operations)
	v.More = (s.page+1)*importPage < v.Shown
	for _, o := range rows {
		v.Rows = append(v.Rows, i.presentOperation(&o))
	}
	return v
}

func (i *importing) presentOperation(o *setting.Operation) ImportOperation {
	row := ImportOperation{
		Name: o.Name, Method: o.Method, Path: o.Path, Summary: o.Summary, Tags: strings.Join(o.Tags, ", "), NoOutput: o.NoOutputSchema,
		Chosen: slices.Contains(i.notes.Chosen, o.Name),
	}
	switch {
	case o.ReadOnly:
		row.Badges = append(row.Badges, view.Badge{Word: text.SkillImportReads(), Icon: "standard", Level: view.Quiet, Note: text.SkillImportByMethod()})
	case o.Method == http.MethodDelete:
		row.Badges = append(row.Badges, view.Badge{Word: text.SkillImportDestructive(), Icon: "destructive", Level: view.Warn, Note: text.SkillImportByMethod()})
	}
	if o.Deprecated {
		row.Badges = append(row.Badges, view.Badge{Word: text.SkillImportDeprecated(), Icon: "changed", Level: view.Warn})
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

// ChooseOperations stores the choice, and shows another page of operations or the next step.
func (h *ImportHandler) ChooseOperations(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	found, err := h.examineDocument(r, i)
	if err != nil {
		h.answerUnexamined(w, r, i, err)
		return
	}
	at := readSearch(r.PostFormValue, "at_")
	i.readChoice(r, found, at)
	next, wrong := search{}, shell.Faults(nil)
	incomplete := i.setFilters(found) // for every action, since another tab may try or save the draft
	switch do := r.PostFormValue("do"); {
	case do == "next":
		if wrong = incomplete; len(wrong) == 0 {
			if err := h.agents.CheckSkill(i.withoutCredentials()); err != nil {
				wrong, _ = shell.FaultsOf(err)
			}
		}
	case strings.HasPrefix(do, "page:"):
		next = at
		next.page, _ = strconv.Atoi(strings.TrimPrefix(do, "page:"))
	default:
		next = readSearch(r.PostFormValue, "")
	}
	if err := h.keepImport(r, i); err != nil {
		h.Fail(w, r, err)
		return
	}
	switch {
	case len(wrong) > 0:
		h.answerWithOperations(w, r, http.StatusUnprocessableEntity, i, at, wrong)
	case r.PostFormValue("do") == "next":
		shell.Redirect(w, r, importURL(i.ID)+"/credentials")
	default:
		shell.Redirect(w, r, importURL(i.ID)+next.encodeQuery()+"#list-title")
	}
}

// readChoice reads the choice on a page of operations. The choice on other pages stays.
func (i *importing) readChoice(r *http.Request, found *setting.Examination, at search) {
	i.Spec.BaseURL = shell.Line(r, "base_url")
	before := len(i.notes.Chosen) + len(i.notes.Tags)
	i.notes.Tags = nil
	for _, tag := range r.PostForm["tags"] {
		if slices.ContainsFunc(found.Operations, func(o setting.Operation) bool { return slices.Contains(o.Tags, tag) }) && !slices.Contains(i.notes.Tags, tag) {
			i.notes.Tags = append(i.notes.Tags, tag)
		}
	}
	rows, _ := at.listPage(found.Operations)
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
		i.notes.All = false // a choice of some operations means only these
	}
}

// setFilters turns the choice into filters.
func (i *importing) setFilters(found *setting.Examination) (wrong shell.Faults) {
	i.Spec.Include = nil
	if i.Spec.BaseURL == "" && found.BaseURL == "" {
		wrong.Add("base_url", cmp.Or(found.BaseURLReason, "is required: the document names no server"))
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
		wrong.Add("include", "must be at least one operation, or all of them")
	case n > maxIncluded:
		wrong.Add("include", fmt.Sprintf("must be at most %d operations, not %d: choose tags, or all operations", maxIncluded, n))
	}
	return wrong
}
