package grants

import (
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ShowSuggestions lists the grants that decisions suggest. Each leads to the form that makes it.
func (h *Handler) ShowSuggestions(w http.ResponseWriter, r *http.Request) {
	found, err := h.calls.SuggestGrants(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	var people []uuid.UUID
	for i := range found.Found {
		people = append(people, found.Found[i].PrincipalID)
	}
	names, err := h.Names(r.Context(), people...)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v := Suggestions{Decisions: found.Decisions, Partly: !found.Complete}
	for i := range found.Found {
		v.List = append(v.List, presentSuggestion(&found.Found[i], names))
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, SuggestionsPage(h.Page(r, view.SectionGrants, text.GrantsSuggestions(), pulse), v))
}

func presentSuggestion(s *call.Suggestion, names map[uuid.UUID]string) Suggested {
	v := Suggested{
		Agent: s.Agent, Person: present.PersonName(s.PrincipalID, names), Tool: s.Skill + ": " + s.Tool,
		URL: present.CallURL(s.CallID) + "/grant?suggestion=" + s.Key, Last: s.Last,
	}
	varied := text.GrantsSuggestedSame()
	if list := s.Varying(); len(list) > 0 {
		varied = text.GrantsSuggestedVaried(view.Printable(strings.Join(list, ", ")))
	}
	v.Why = text.Join(" ", text.GrantsSuggestedCalls(s.Covered), varied, text.GrantsSuggestedDeciders(s.Deciders))
	if s.Refused > 0 {
		v.Why = text.Join(" ", v.Why, text.GrantsSuggestedRefused(s.Refused))
	}
	for i := range s.Arguments {
		v.Arguments = append(v.Arguments, presentArgument(&s.Arguments[i], nil))
	}
	return v
}

// fillIn chooses what a suggestion allows. An argument for which the form cannot say it stays exact.
func (f *grantForm) fillIn(s *call.Suggestion) {
	for i := range f.plain.Proposals {
		p := &f.plain.Proposals[i]
		at := slices.IndexFunc(s.Arguments, func(m grant.Matcher) bool { return m.Argument == p.Argument })
		if at < 0 || f.hidden[i] {
			continue
		}
		if typed, ok := s.Arguments[at].Format(p); ok {
			f.chosen[i], f.typed[i] = s.Arguments[at], typed
		}
	}
}

// readSuggestion returns the suggestion that a link to the form names. It reports false if there is none, or not for the reader.
func (h *Handler) readSuggestion(r *http.Request) (call.Suggestion, bool, error) {
	key := r.URL.Query().Get("suggestion")
	if access, _ := login.Access(r.Context()); key == "" || !access.Has(identity.Operator) {
		return call.Suggestion{}, false, nil
	}
	return h.calls.FindSuggestion(r.Context(), key)
}
