package grants

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// grantForm is the form of a grant: what a person chose for each argument of a call, and what the grant would allow.
type grantForm struct {
	id        uuid.UUID // of the call
	plain     call.GrantPreview
	chosen    []grant.Matcher
	typed     []string // values as they were typed
	time      time.Duration
	uses      string
	wrong     shell.Faults
	hidden    []bool // arguments whose values are secrets
	untouched bool   // it is shown for the first time
	filled    bool   // with a suggestion
}

// readGrant reads the call of a form, and what was chosen.
func (h *Handler) readGrant(r *http.Request) (*grantForm, error) {
	id, err := shell.CallID(r)
	if err != nil {
		return nil, err
	}
	f := &grantForm{id: id, time: min(grant.DefaultTime, h.agents.MaxGrantTime()), untouched: r.Method != http.MethodPost}
	if f.plain, err = h.calls.PreviewGrant(r.Context(), shell.Actor(r).ID, call.GrantRequest{CallID: id}); err != nil {
		return nil, err
	}
	secrets, err := h.calls.ReadSecrets(r.Context(), f.plain.Call)
	if err != nil {
		return nil, err
	}
	for i := range f.plain.Proposals {
		p := &f.plain.Proposals[i]
		kind, typed := grant.Kind(r.PostFormValue("kind."+strconv.Itoa(i))), shell.Clean(shell.Text(r, "values."+strconv.Itoa(i)))
		if kind == "" {
			kind = grant.Exact
		}
		f.chosen, f.typed = append(f.chosen, p.Read(kind, typed)), append(f.typed, typed)
		f.hidden = append(f.hidden, grant.IsSecret(secrets[id], p.Argument, p.Value))
	}
	if f.untouched {
		s, found, err := h.readSuggestion(r)
		if found && s.CallID == id {
			f.fillIn(&s)
			f.filled = true
		}
		return f, err
	}
	if asked := f.wrong.Duration("time", shell.Line(r, "time")); asked != nil {
		f.time = time.Duration(*asked)
	}
	f.uses = shell.Line(r, "uses")
	return f, nil
}

// request returns the request for the grant that was chosen.
func (f *grantForm) request() call.GrantRequest {
	r := call.GrantRequest{CallID: f.id, Arguments: &f.chosen, Time: f.time}
	if f.uses != "" {
		n, err := strconv.ParseInt(f.uses, 10, 64)
		if err != nil {
			f.wrong.Add("uses", "must be a whole number, or empty")
		}
		r.Uses = &n
	}
	return r
}

// place names the fields of the form in faults about matchers.
func place(faults shell.Faults) shell.Faults {
	for i := range faults {
		rest, ok := strings.CutPrefix(faults[i].Name, "arguments[")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, "]")
		faults[i].Name = "values." + number
		if strings.HasSuffix(rest, ".kind") {
			faults[i].Name = "kind." + number
		}
	}
	return faults
}

func (f *grantForm) parts(preview Preview, longest time.Duration) []view.FormPart {
	var parts []view.FormPart
	for i := range f.plain.Proposals {
		p, n := &f.plain.Proposals[i], strconv.Itoa(i)
		name := text.Literal(view.Printable(argumentName(p.Argument)))
		kinds := view.Field{Name: "kind." + n, Label: text.GrantsAllowed(), Kind: view.FieldSelect, Value: string(f.chosen[i].Kind), Required: true}
		if f.hidden[i] {
			kinds.Choices = []view.Choice{{Value: string(grant.Exact), Word: text.GrantsKindExact()}, {Value: string(grant.Anything), Word: text.GrantsKindAnything()}}
			kinds.Hint = text.GrantsHidden()
			parts = append(parts, view.FormPart{Title: name, Fields: []view.Field{kinds}})
			continue
		}
		kinds.Below = valueBlock(hostile.ShowDocument(p.Value, hostile.Folded()))
		var listed []string
		for _, m := range p.Matchers {
			kinds.Choices = append(kinds.Choices, view.Choice{Value: string(m.Kind), Word: choiceWords(&m)})
			if m.Kind != grant.Exact && m.Kind != grant.Anything {
				listed = append(listed, string(m.Kind))
			}
		}
		parts = append(parts, view.FormPart{Title: name, Fields: []view.Field{kinds, {
			Name: "values." + n, Label: text.GrantsValues(), Kind: view.FieldArea, Value: f.typed[i], Code: true, Hint: text.GrantsValuesHint(), For: strings.Join(listed, " "),
		}}})
	}
	times := []time.Duration{time.Hour, grant.DefaultTime, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}
	times = slices.DeleteFunc(times, func(d time.Duration) bool { return d > longest })
	if !slices.Contains(times, f.time) {
		times = append(times, f.time)
	}
	last := view.FormPart{Title: text.GrantsBounds(), Words: text.GrantsBoundsLead(), Fields: []view.Field{
		{Name: "time", Label: text.GrantsLasts(), Kind: view.FieldSelect, Value: agent.Duration(f.time).String(), Required: true},
		{Name: "uses", Label: text.GrantsUses(), Kind: view.FieldLine, Value: f.uses, Hint: text.GrantsUsesHint(), Below: previewPart(preview)},
	}}
	for _, d := range times {
		last.Fields[0].Choices = append(last.Fields[0].Choices, view.Choice{Value: agent.Duration(d).String(), Word: formatTime(d)})
	}
	return append(parts, last)
}

// formatTime returns the time that a grant lasts, in days or hours if it is whole ones.
func formatTime(d time.Duration) text.Message {
	const day = 24 * time.Hour
	switch {
	case d%day == 0:
		return text.GrantsDays(int(d / day))
	case d < day && d%time.Hour == 0:
		return text.PlansHours(int(d / time.Hour))
	}
	return present.FormatDuration(d)
}

// choiceWords names a kind with the value that is proposed for it.
func choiceWords(m *grant.Matcher) text.Message {
	if m.Kind == grant.Exact || m.Kind == grant.OneOf || len(m.Values) != 1 {
		return kindWords(m.Kind)
	}
	return text.GrantsKindWith(kindWords(m.Kind), view.Printable(string(m.Values[0])))
}

// preview says what the chosen grant would allow.
func (h *Handler) preview(r *http.Request, f *grantForm) (Preview, shell.Faults, error) {
	p := f.plain
	if !f.untouched || f.filled {
		var err error
		p, err = h.calls.PreviewGrant(r.Context(), shell.Actor(r).ID, f.request())
		if faults, ok := shell.FaultsOf(err); ok {
			v := Preview{}
			for _, one := range faults {
				v.Problems = append(v.Problems, text.Fault(one.Expected))
			}
			return v, place(faults), nil
		}
		if err != nil {
			return Preview{}, nil, err
		}
	}
	v := Preview{Verdict: text.GrantsMatching(p.Matching), Second: p.NeedsSecond}
	if p.Rejected > 0 || p.Pending > 0 {
		v.Verdict = text.Join(" ", v.Verdict, text.GrantsMatchingParts(p.Rejected, p.Pending))
	}
	for _, m := range p.Matches {
		v.Calls = append(v.Calls, Match{ID: present.ShortID(m.CallID), URL: present.CallURL(m.CallID), At: m.CreatedAt, Badge: decisionBadge(m.Decision)})
	}
	return v, nil, nil
}

func decisionBadge(decision approval.Status) view.Badge {
	status := call.Status(decision)
	if decision == approval.Pending {
		status = call.Parked
	}
	return present.StatusBadge(status)
}

// answerWithForm answers with the form of a grant.
func (h *Handler) answerWithForm(w http.ResponseWriter, r *http.Request, status int, f *grantForm, wrong shell.Faults) {
	preview, faults, err := h.preview(r, f)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if shell.PartOnly(r) && status == http.StatusOK {
		h.Render(w, r, status, previewPart(preview))
		return
	}
	if wrong == nil {
		wrong = faults
	}
	back := present.CallURL(f.id)
	form := view.Form{
		Name: "grant-form", Action: back + "/grant", Send: text.GrantsGrant(), Cancel: back, Parts: f.parts(preview, h.agents.MaxGrantTime()), Ready: f.untouched,
		Check: &view.FormCheck{URL: back + "/grant/preview", Label: text.GrantsPreview(), Field: "uses"},
	}
	if status == http.StatusUnprocessableEntity {
		wrong = place(wrong)
		wrong.ShowIn(&form, false)
	}
	c := &f.plain.Call
	form.Note = text.GrantsAbout(c.Agent, c.Skill+": "+view.Printable(c.Tool))
	crumbs := []view.Crumb{{URL: back, Word: text.ReviewCall()}, {Word: text.GrantsLike()}}
	h.AnswerWithForm(w, r, status, view.SectionQueue, crumbs, text.GrantsLike(), form)
}

// NewGrant asks for a grant from a call. At first, every argument has to be exactly the same.
func (h *Handler) NewGrant(w http.ResponseWriter, r *http.Request) {
	f, err := h.readGrant(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithForm(w, r, http.StatusOK, f, nil)
}

// CreateGrant makes a grant.
func (h *Handler) CreateGrant(w http.ResponseWriter, r *http.Request) {
	f, err := h.readGrant(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	asked := f.request()
	h.Submit(w, r, f.wrong, func(known shell.Faults) (string, error) {
		if len(known) > 0 {
			return "", &fault.InvalidError{Fields: known}
		}
		made, err := h.calls.Grant(r.Context(), shell.Actor(r).ID, asked)
		if _, waits := errors.AsType[*dualcontrol.WaitsError](err); waits && !shell.MayEdit(r) { // changes have pages for operators only
			return present.CallURL(f.id) + "?done=" + string(shell.GrantProposed), nil
		}
		return present.GrantURL(made.ID) + "?done=granted", err
	}, func(status int, wrong shell.Faults) { h.answerWithForm(w, r, status, f, wrong) })
}
