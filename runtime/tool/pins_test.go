package tool_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

var (
	read1, read2   = formatDefinition("read", "reads"), formatDefinition("read", "reads and sends it away")
	write1, write2 = formatDefinition("write", "writes"), formatDefinition("write", "writes elsewhere")
)

func TestFirstDiscoveryIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	for name, want := range map[string]tool.Pin{"read": pinOf(t, read1), "write": pinOf(t, write1)} {
		if s := w.getStatus(name); !s.IsAccepted() || s.Accepted != want || s.Current != want {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := w.getStatus("delete"); s != (tool.PinStatus{}) {
		t.Errorf("a tool that never was: %+v", s)
	}
	if got, want := w.auditActions(), []string{"tools.accepted"}; !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: w.skill.SkillID, Limit: 1})
	check(t, err)
	tools, _ := events[0].Data["tools"].(map[string]any)
	if tools["read"] != pinOf(t, read1).String() || len(tools) != 2 {
		t.Errorf("the event names %v", tools)
	}
	w.listTools(false)
	if got := w.auditActions(); len(got) != 1 {
		t.Errorf("listed again: %v", got)
	}
}

func TestChangedDefinitionIsNotAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	w.source.offerTools(read2, write1)
	w.listTools(false)
	if s := w.getStatus("read"); s.IsAccepted() || s.Current != pinOf(t, read2) || s.Accepted != pinOf(t, read1) || !s.Known {
		t.Errorf("changed: %+v", s)
	}
	if s := w.getStatus("write"); !s.IsAccepted() {
		t.Errorf("unchanged: %+v", s)
	}
	w.source.offerTools(read1, write1)
	w.listTools(false)
	if s := w.getStatus("read"); !s.IsAccepted() {
		t.Errorf("as it was: %+v", s)
	}
	want := []string{"tools.accepted", "tool.changed read", "tool.restored read"}
	if got := w.auditActions(); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
}

// TestOlderVersionMovesNoPins: during an upgrade, two versions derive different definitions from one document.
func TestOlderVersionMovesNoPins(t *testing.T) {
	t.Parallel()
	w := worldWith(t, &server{generation: 1})
	w.source.offerTools(read1, write1)
	w.listTools(false)
	newer := &server{generation: 2}
	newer.offerTools(read2, write1)
	upgraded := &world{process: newProcess(t, w.db, newer), db: w.db, source: newer, skill: w.skill}
	upgraded.listTools(false)
	for range 2 {
		w.listTools(false)
		upgraded.listTools(false)
	}
	if s := w.getStatus("read"); s.IsAccepted() || s.Current != pinOf(t, read2) || s.Accepted != pinOf(t, read1) {
		t.Errorf("changed: %+v", s)
	}
	if got, want := w.auditActions(), []string{"tools.accepted", "tool.changed read"}; !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
	if _, err := w.discovery.Definition(t.Context(), pinOf(t, read1)); err != nil {
		t.Errorf("the older version's definition: %v", err)
	}
	w.source.generation = 0 // the skill's server now describes its tools itself
	w.listTools(false)
	if s := w.getStatus("read"); !s.IsAccepted() {
		t.Errorf("of its server: %+v", s)
	}
}

func TestRemovedToolComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	w.source.offerTools(write1)
	w.listTools(true)
	if s := w.getStatus("read"); s.Known || s.IsAccepted() {
		t.Errorf("removed: %+v", s)
	}
	w.source.offerTools(read2, write1)
	w.listTools(true) // trusting new tools does not cover changed ones
	if s := w.getStatus("read"); !s.Known || s.IsAccepted() || s.Accepted != pinOf(t, read1) {
		t.Errorf("back with another definition: %+v", s)
	}
	w.source.offerTools(write1)
	w.listTools(false)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	if s := w.getStatus("read"); !s.IsAccepted() {
		t.Errorf("back as it was: %+v", s)
	}
	want := []string{
		"tools.accepted", "tool.removed read", "tool.added read", "tool.removed read", "tool.restored read",
	}
	if got := w.auditActions(); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
}

func TestNewTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1)
	w.listTools(false)
	w.source.offerTools(read1, write1)
	w.listTools(false)
	if s := w.getStatus("write"); s.IsAccepted() || !s.Accepted.IsZero() || !s.Known {
		t.Errorf("new: %+v", s)
	}
	w.listTools(true)
	if s := w.getStatus("write"); !s.IsAccepted() {
		t.Errorf("new tools are trusted: %+v", s)
	}
	w.source.offerTools(read2, write2)
	w.listTools(true)
	if r, s := w.getStatus("read"), w.getStatus("write"); r.IsAccepted() || s.IsAccepted() {
		t.Errorf("changed, though new tools are trusted: %+v, %+v", r, s)
	}
}

func TestEmptyFirstDiscoveryCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listTools(false)
	w.source.offerTools(read1)
	w.listTools(false)
	if s := w.getStatus("read"); s.IsAccepted() {
		t.Errorf("a tool that came later: %+v", s)
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1)
	w.listTools(false)
	w.source.offerTools(read2, write1)
	w.listTools(false)
	operator := uuid.New()
	accept := func(name string, p tool.Pin) error {
		return w.agents.AcceptTool(t.Context(), audit.Person(operator), w.skill.SkillID, name, p)
	}
	if err := accept("read", pinOf(t, read1)); !errors.Is(err, tool.ErrNotCurrent) {
		t.Errorf("a tool that is not offered: %v", err)
	}
	if err := accept("delete", pinOf(t, read1)); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("no such tool: %v", err)
	}
	check(t, accept("read", pinOf(t, read2)))
	check(t, accept("write", pinOf(t, write1)))
	check(t, accept("write", pinOf(t, write1))) // has no effect
	if r, s := w.getStatus("read"), w.getStatus("write"); !r.IsAccepted() || !s.IsAccepted() {
		t.Errorf("accepted: %+v, %+v", r, s)
	}
	want := []string{
		"tools.accepted", "tool.added write", "tool.changed read", "tool.accepted read", "tool.accepted write",
	}
	if got := w.auditActions(); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: w.skill.SkillID, Limit: 1})
	check(t, err)
	if events[0].Actor != audit.Person(operator) {
		t.Errorf("accepted by %+v", events[0].Actor)
	}
}

func TestTwoProcessesDiscoverAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1, write1)
	processes := []*process{w.process}
	for range 3 {
		processes = append(processes, newProcess(t, w.db, w.source))
	}
	var all sync.WaitGroup
	for _, p := range processes {
		all.Go(func() {
			if _, err := p.discovery.List(t.Context(), w.skill, false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, want := w.auditActions(), []string{"tools.accepted"}; !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
	for _, p := range processes {
		status, err := p.discovery.Status(t.Context(), w.skill.SkillID, "read")
		if err != nil || !status.IsAccepted() {
			t.Errorf("%+v, %v", status, err)
		}
	}
}

// An older listing that is stored late does not revert the pins.
func TestSlowListingDoesNotUndoALaterOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1)
	w.listTools(false)
	slow := newGated(read1)
	other := newProcess(t, w.db, slow)
	done := make(chan error, 1)
	go func() {
		_, err := other.discovery.List(t.Context(), w.skill, false)
		done <- err
	}()
	<-slow.entered
	w.source.offerTools(read2)
	w.listTools(false)
	close(slow.gate)
	check(t, <-done)
	if s := w.getStatus("read"); s.Current != pinOf(t, read2) {
		t.Errorf("moved back: %+v", s)
	}
}
