package shell

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// PersonNotes returns the warnings to show beside names.
func (sh *Shell) PersonNotes(ctx context.Context, people []identity.Person) (map[uuid.UUID][]view.Badge, error) {
	var inviters []uuid.UUID
	for i := range people {
		inviters = append(inviters, people[i].InvitedBy)
	}
	alike, err := sh.identity.Alike(ctx, people...)
	if err != nil {
		return nil, err
	}
	names, err := sh.Names(ctx, inviters...)
	if err != nil {
		return nil, err
	}
	notes := map[uuid.UUID][]view.Badge{}
	for _, p := range people {
		if !p.Verified() {
			notes[p.ID] = append(notes[p.ID], view.Badge{
				Word: text.MemberInvitedBy(view.Printable(names[p.InvitedBy])), Icon: "unknown", Level: view.Warn,
				Note: text.MemberInvitedByNote(),
			})
		}
		if p.First {
			notes[p.ID] = append(notes[p.ID], view.Badge{Word: text.MemberFirst(), Icon: "unknown", Level: view.Quiet, Note: text.MemberFirstNote()})
		}
		if alike[p.ID] {
			notes[p.ID] = append(notes[p.ID], view.Badge{Word: text.MemberLooksAlike(), Icon: "high", Level: view.Warn, Note: text.MemberLooksAlikeNote()})
		}
	}
	return notes, nil
}

// Names returns the display names of people by ID.
func (sh *Shell) Names(ctx context.Context, ids ...uuid.UUID) (map[uuid.UUID]string, error) {
	people, err := sh.People(ctx, ids...)
	return present.DisplayNames(people), err
}

// People returns the known people by ID.
func (sh *Shell) People(ctx context.Context, ids ...uuid.UUID) (map[uuid.UUID]identity.Person, error) {
	known := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if id != uuid.Nil {
			known = append(known, id)
		}
	}
	if len(known) == 0 {
		return nil, nil
	}
	return sh.identity.People(ctx, known)
}

// MayStart reports whether the person may start a conversation with the agent.
func MayStart(access identity.Access, a *agent.Agent) bool {
	return a.Model != nil && access.MayActAs(a.Name)
}
