package converse_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

func TestNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := converse.New(converse.Config{ // it gets only the test's notifications
		Pool: w.db.Pool(), Agents: w.agents, Catalog: w.registry.Catalog, Calls: w.calls, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Instance: uuid.New(),
		Provider: func(agent.ModelSpec) (model.Provider, error) { return nil, errors.New("nobody is asked") },
	})
	check(t, err)
	defer s.Close()
	n := s.News()
	defer n.Close()
	first, second := uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{first, second, first} {
		s.HandleNotification(id.String())
	}
	ids, all := n.Take()
	if len(ids) != 2 || all || !slices.Contains(ids, first) || !slices.Contains(ids, second) {
		t.Errorf("took %v, all %v", ids, all)
	}
	if ids, all := n.Take(); len(ids) != 0 || all {
		t.Errorf("took %v again, all %v", ids, all)
	}
	for range 100 {
		s.HandleNotification(uuid.NewString())
	}
	if ids, all := n.Take(); len(ids) != 0 || !all {
		t.Errorf("of too many %d, all %v", len(ids), all)
	}
	s.CatchUp()
	if _, all := n.Take(); !all {
		t.Error("no news after the connection was lost")
	}
	n.Close()
	s.HandleNotification(first.String())
	if ids, all := n.Take(); len(ids) != 0 || all {
		t.Errorf("closed, it took %v, all %v", ids, all)
	}
}
