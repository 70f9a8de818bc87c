package tool_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// countListings lists the tools, and returns how often the server was asked so far.
func (w *world) countListings() int32 {
	w.t.Helper()
	_, err := w.discovery.List(w.t.Context(), w.skill, false)
	var failure *tool.Failure
	if err != nil && !errors.As(err, &failure) {
		w.t.Fatal(err)
	}
	return w.source.lists.Load()
}

func TestListingIsFreshForAWhile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl   *time.Duration
		fresh time.Duration
		err   error
	}{
		"default":      {nil, 5 * time.Minute, nil},
		"the server's": {new(time.Second), time.Second, nil},
		"a day":        {new(1000 * time.Hour), 24 * time.Hour, nil},
		"failure":      {nil, 10 * time.Second, &tool.Failure{Kind: tool.ProtocolFailure, Message: "HTML"}},
		"other error":  {nil, 10 * time.Second, errors.New("refused")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.source.offerTools(read1)
			w.source.ttl = tc.ttl
			w.source.fail(tc.err)
			w.countListings()
			w.clock.Forward(tc.fresh - time.Nanosecond)
			if n := w.countListings(); n != 1 {
				t.Errorf("asked %d times while the listing was fresh", n)
			}
			w.clock.Forward(time.Nanosecond)
			if n := w.countListings(); n != 2 {
				t.Errorf("asked %d times when it no longer was", n)
			}
		})
	}
}

// A listing with a TTL of zero is used only by callers that wait for it.
func TestListingThatIsOutOfDateAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1)
	w.source.ttl = new(time.Duration(0))
	for want := range int32(3) {
		if n := w.countListings(); n != want+1 {
			t.Fatalf("asked %d times, want %d", n, want+1)
		}
	}
	for want := range int32(2) {
		if _, err := w.discovery.Recheck(t.Context(), w.skill, false, "read"); err != nil {
			t.Fatal(err)
		}
		if n := w.source.lists.Load(); n != want+4 {
			t.Fatalf("before a dispatch: asked %d times, want %d", n, want+4)
		}
	}
	// The server's recovery must be noticed, or its tools would stay missing.
	if _, err := w.discovery.ListCached(t.Context(), w.skill, false); err != nil {
		t.Error("a listing that succeeded is not known")
	}
}

func TestListChangedIsListedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.countListings()
	w.discovery.ListChanged(uuid.New())
	if n := w.countListings(); n != 1 {
		t.Errorf("another skill's notice: asked %d times", n)
	}
	w.discovery.Invalidate()
	if n := w.countListings(); n != 1 {
		t.Errorf("a change of the registry: asked %d times", n)
	}
	w.discovery.ListChanged(w.skill.SkillID)
	if n := w.countListings(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestFailureIsRecordedAndRecovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.fail(&tool.Failure{Kind: tool.TransportFailure, Message: "connection \x00refused " + strings.Repeat("x", 1000)})
	_, err := w.discovery.List(t.Context(), w.skill, false)
	var failure *tool.Failure
	if !errors.As(err, &failure) || failure.Kind != tool.TransportFailure {
		t.Fatalf("error %v", err)
	}
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	if h := skill.Health; h.ErrorKind != "transport" || !strings.HasPrefix(h.Error, "connection \uFFFDrefused") ||
		len(h.Error) > 600 || h.DiscoveredAt != nil || h.ListedAt == nil {
		t.Errorf("health %+v", h)
	}
	w.source.fail(nil)
	w.source.offerTools(read1)
	w.listTools(false)
	if skill, err = w.agents.SkillByName(t.Context(), "files"); err != nil || skill.Health.ErrorKind != "" ||
		skill.Health.Error != "" || skill.Health.DiscoveredAt == nil {
		t.Errorf("health %+v, %v", skill.Health, err)
	}
	if s := w.getStatus("read"); !s.IsAccepted() {
		t.Errorf("first discovery after failures: %+v", s)
	}
}

func TestCancelledWaiterDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	w := worldWith(t, newGated(read1))
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.discovery.List(first, w.skill, false)
		left <- err
	}()
	<-w.source.entered
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	var others sync.WaitGroup
	for range 5 {
		others.Go(func() {
			listing, err := w.discovery.List(t.Context(), w.skill, false)
			if err != nil || len(listing.Tools) != 1 {
				t.Errorf("%+v, %v", listing, err)
			}
		})
	}
	close(w.source.gate)
	others.Wait()
	if n := w.source.lists.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestRecheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recheck := func(name string) (tool.PinStatus, error) {
		var status tool.PinStatus
		if _, err := w.discovery.Recheck(t.Context(), w.skill, false, name); err != nil {
			return status, err
		}
		batch := &pgx.Batch{}
		tool.QueuePin(batch, w.skill.SkillID, name, &status)
		return status, w.db.Pool().SendBatch(t.Context(), batch).Close()
	}
	w.source.offerTools(read1)
	w.countListings()
	w.source.offerTools(read2)
	w.clock.Forward(59 * time.Second)
	if s, err := recheck("read"); err != nil || !s.IsAccepted() || w.source.lists.Load() != 1 {
		t.Errorf("within a minute: %+v, %v", s, err)
	}
	w.clock.Forward(time.Second)
	if s, err := recheck("read"); err != nil || s.IsAccepted() || s.Current != pinOf(t, read2) {
		t.Errorf("after a minute: %+v, %v", s, err)
	}
	// Another process accepts. The database is up to date at once.
	other := newProcess(t, w.db, w.source)
	check(t, other.agents.AcceptTool(t.Context(), audit.System(), w.skill.SkillID, "read", pinOf(t, read2)))
	if s, err := recheck("read"); err != nil || !s.IsAccepted() {
		t.Errorf("accepted elsewhere: %+v, %v", s, err)
	}
	// A remembered failure does not stop a call whose server is back.
	w.source.fail(&tool.Failure{Kind: tool.TransportFailure, Message: "down"})
	w.clock.Forward(time.Minute)
	if _, err := recheck("read"); err == nil {
		t.Error("the server is down, and the check passed")
	}
	w.source.fail(nil)
	if s, err := recheck("read"); err != nil || !s.IsAccepted() {
		t.Errorf("server is back: %+v, %v", s, err)
	}
	if s, err := recheck("delete"); err != nil || s.Known {
		t.Errorf("no such tool: %+v, %v", s, err)
	}
}

func TestHostileNamesAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1, formatDefinition("read", "another"), `{"name":"a\u0000b","inputSchema":{}}`, write1)
	listing, err := w.discovery.List(t.Context(), w.skill, false)
	check(t, err)
	if len(listing.Tools) != 2 || len(listing.Skipped) != 2 {
		t.Errorf("tools %v, skipped %v", listing.Tools, listing.Skipped)
	}
	if s := w.getStatus("read"); s.Current != pinOf(t, read1) {
		t.Errorf("the second of one name counts: %+v", s)
	}
}

// PostgreSQL can store every definition that ParseDefinition accepts.
func TestDeepDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const depth = 9990
	deep := `{"name":"deep","x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `,"inputSchema":{}}`
	w.source.offerTools(read1, deep)
	listing, err := w.discovery.List(t.Context(), w.skill, false)
	if err != nil || len(listing.Tools) != 2 {
		t.Errorf("%d tools, %v", len(listing.Tools), err)
	}
}

func TestChangedSkillIsSuperseded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.offerTools(read1)
	yes := true
	_, err := w.agents.UpdateSkill(t.Context(), audit.System(), w.skill.SkillID, agent.SkillPatch{AutoApprove: &yes})
	check(t, err)
	if _, err := w.discovery.List(t.Context(), w.skill, false); !errors.Is(err, tool.ErrSuperseded) {
		t.Errorf("an older revision was listed: %v", err)
	}
	if s := w.getStatus("read"); s.Known {
		t.Errorf("and stored: %+v", s)
	}
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const strange = `{"name":"read","x-big":9007199254740993,"inputSchema":{"type":"object","maximum":1e400}}`
	w.source.offerTools(strange, write1)
	w.listTools(false)
	other := newProcess(t, w.db, w.source)
	d, err := other.discovery.Definition(t.Context(), pinOf(t, strange))
	if err != nil || string(d.Raw()) != strange || d.Pin() != pinOf(t, strange) {
		t.Errorf("%s, %v", d.Raw(), err)
	}
	both, err := other.discovery.Definitions(t.Context(), []tool.Pin{pinOf(t, strange), pinOf(t, write1)})
	if err != nil || len(both) != 2 {
		t.Errorf("%v, %v", both, err)
	}
	if _, err := other.discovery.Definition(t.Context(), pinOf(t, write2)); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("never stored: %v", err)
	}
}

func TestUnknownTransport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.discovery.Source(tool.Stdio); !errors.Is(err, tool.ErrNoSource) {
		t.Errorf("source: %v", err)
	}
	skill := w.skill
	skill.Transport = tool.Stdio
	_, err := w.discovery.List(t.Context(), skill, false)
	if _, ok := errors.AsType[*tool.Failure](err); !ok {
		t.Errorf("list: %v", err)
	}
}
