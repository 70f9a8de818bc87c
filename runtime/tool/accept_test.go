package tool_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	w.source.offerTools(read2, write1)
	w.listTools(false)
	operator := audit.Person(uuid.New())
	refuse := func(name string, p tool.Pin) error {
		return w.agents.RefuseTool(t.Context(), operator, w.skill.SkillID, name, p)
	}
	if err := refuse("read", pinOf(t, read1)); !errors.Is(err, tool.ErrNotCurrent) {
		t.Errorf("a tool that is not offered: %v", err)
	}
	if err := refuse("delete", pinOf(t, read1)); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("no such tool: %v", err)
	}
	check(t, refuse("read", pinOf(t, read2)))
	check(t, refuse("read", pinOf(t, read2))) // has no effect
	if r, s := w.getStatus("read"), w.getStatus("write"); !r.IsRefused() || r.IsAccepted() || s.IsRefused() {
		t.Errorf("refused: %+v, %+v", r, s)
	}
	w.source.offerTools(read1, write1)
	w.listTools(false)
	if s := w.getStatus("read"); s.IsRefused() || !s.IsAccepted() {
		t.Errorf("back as it was accepted: %+v", s)
	}
	w.source.offerTools(read2, write1)
	w.listTools(false)
	if s := w.getStatus("read"); !s.IsRefused() {
		t.Errorf("back as it was refused: %+v", s)
	}
	check(t, w.agents.AcceptTool(t.Context(), operator, w.skill.SkillID, "read", pinOf(t, read2)))
	if s := w.getStatus("read"); s.IsRefused() || !s.IsAccepted() {
		t.Errorf("accepted after all: %+v", s)
	}
	want := []string{
		"tools.accepted", "tool.changed read", "tool.refused read", "tool.restored read", "tool.changed read", "tool.accepted read",
	}
	if got := w.auditActions(); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
}

// An accepted definition can be refused. Trusting new tools does not accept a refused one.
func TestRefusalIsNotUndoneByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1)
	w.listTools(false)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	check(t, w.agents.RefuseTool(t.Context(), audit.System(), w.skill.SkillID, "write", pinOf(t, write1)))
	check(t, w.agents.RefuseTool(t.Context(), audit.System(), w.skill.SkillID, "read", pinOf(t, read1)))
	w.listTools(true)
	if r, s := w.getStatus("read"), w.getStatus("write"); !r.IsRefused() || !s.IsRefused() || s.IsAccepted() {
		t.Errorf("listed again with new tools trusted: %+v, %+v", r, s)
	}
	accepted, err := w.discovery.Accepted(t.Context(), w.skill.SkillID)
	if err != nil || len(accepted) != 0 {
		t.Errorf("offered while the server cannot be asked: %d, %v", len(accepted), err)
	}
	check(t, w.agents.AcceptTool(t.Context(), audit.System(), w.skill.SkillID, "read", pinOf(t, read1)))
	if s := w.getStatus("read"); s.IsRefused() || !s.IsAccepted() {
		t.Errorf("taken back: %+v", s)
	}
}
