package resource_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

func (g *told) hasRelisted(kind resource.Kind) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.lists, kind)
}

func (g *told) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lists = nil
}

// A notification of a changed list reaches the clients of another process, which lists again.
func TestChangedListsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := w.addSkill("files")
	files.answers["prompts/list"] = `{"prompts":[{"name":"a"}]}`
	w.addSkill("ledger", setGated)
	hears, streams := w.newProcess(), w.newProcess()
	w.deliverNotices(func(payload string) { hears.HandleNotification(payload); streams.HandleNotification(payload) })
	got := w.follow(streams.FollowSession(t.Context(), w.who))
	names := func() (all []string) {
		list, err := streams.List(t.Context(), w.who, resource.Prompts)
		check(t, err)
		for _, e := range list.Entries {
			all = append(all, e.Name)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{"files__a"}) {
		t.Fatalf("%q", got)
	}
	w.mu.Lock()
	files.answers["prompts/list"] = `{"prompts":[{"name":"b"}]}`
	w.mu.Unlock()
	hears.ListChanged(w.skillID("ledger"), "resources/list") // the agent cannot see that skill's lists
	hears.ListChanged(uuid.New(), "resources/list")
	eventually.Holds(t, "told", func() bool {
		hears.ListChanged(w.skillID("files"), "prompts/list")
		return got.hasRelisted(resource.Prompts)
	})
	if got.hasRelisted(resource.Resources) {
		t.Error("told of a list that did not change")
	}
	if got := names(); !slices.Equal(got, []string{"files__b"}) {
		t.Errorf("%q", got)
	}
}

// An agent with another skill has other lists.
func TestOffersThatChangeAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("files")
	w.addSkill("ledger", setGated)
	s := w.newProcess()
	w.deliverNotices(s.HandleNotification)
	got := w.follow(s.FollowSession(t.Context(), w.who))
	eventually.Holds(t, "the agent's skills were looked at", func() bool {
		s.ListChanged(w.skillID("files"), "prompts/list")
		return got.hasRelisted(resource.Prompts)
	})
	for _, open := range []bool{true, false} {
		got.forget()
		w.mu.Lock()
		w.offers[1].Open = open
		w.mu.Unlock()
		s.OffersMayHaveChanged()
		eventually.Holds(t, "both are told", func() bool { return got.hasRelisted(resource.Resources) && got.hasRelisted(resource.Prompts) })
	}
}
