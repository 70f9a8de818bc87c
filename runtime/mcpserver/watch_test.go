package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// Many clients of one agent cost one check a round, and many notices cost a few rounds.
func TestManyStreams(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		streams := make([]*stream, 1000)
		for i := range streams {
			if i%2 == 0 {
				streams[i] = b.openStream(b.newGetRequest(b.startSession()...))
				continue
			}
			body, headers := modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
			streams[i] = b.openStream(b.newRequest(t.Context(), body, headers...))
			streams[i].nextEvent()
		}
		b.agents.takeReads()
		<-time.After(21 * time.Second)
		if got := b.agents.takeReads(); got == 0 || got > 10 { // sessions and the day's conversation, every five seconds
			t.Errorf("%d looks while nothing happens", got)
		}
		b.changeTools(echoTool)
		var notices sync.WaitGroup
		for range 100 {
			notices.Go(b.server.CatalogMayHaveChanged)
		}
		notices.Wait()
		for i, s := range streams {
			if got := s.nextEvent(); !strings.Contains(got, "list_changed") {
				t.Fatalf("stream %d: %q", i, got)
			}
		}
		<-time.After(2 * time.Second)
		if got := b.agents.takeReads(); got == 0 || got > 8 {
			t.Errorf("%d looks at a change", got)
		}
		for range 100 { // for five seconds
			b.server.CatalogMayHaveChanged()
			<-time.After(50 * time.Millisecond)
		}
		if got := b.agents.takeReads(); got > 14 {
			t.Errorf("%d looks in a storm", got)
		}
		<-time.After(time.Minute)
		if got := b.agents.takeReads(); got > 2*len(streams)+40 {
			t.Errorf("%d looks in a minute", got)
		}
	})
}

// A session has one stream: a client that lost the first opens a second.
func TestSecondStream(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		first := b.openStream(b.newGetRequest(session...))
		second := b.openStream(b.newGetRequest(session...))
		other := b.openStream(b.newGetRequest(b.startSession()...))
		if got := first.nextEvent(); got != "" {
			t.Errorf("first: %q", got)
		}
		b.changeTools(echoTool)
		if got := second.nextEvent(); got != changed {
			t.Errorf("second: %q", got)
		}
		if got := other.nextEvent(); got != changed {
			t.Errorf("another session's: %q", got)
		}
	})
}

// Streams with different views are checked individually: a change of one agent is not a change of another.
func TestStreamsApart(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		sessions := [][]string{b.startSession(), b.startSession()}
		b.agents.mu.Lock()
		b.agents.problems = []catalog.Problem{{Skill: "ledger", Kind: "transport", Error: "no route"}}
		b.agents.mu.Unlock()
		sessions = append(sessions, b.startSession(), b.startSession())
		streams := make([]*stream, len(sessions))
		for i, session := range sessions {
			streams[i] = b.openStream(b.newGetRequest(session...))
			streams[i].wantQuiet(0)
		}
		b.agents.mu.Lock() // the skill recovers
		for id, c := range b.agents.conversations {
			if len(c.Problems) > 0 {
				whole := *c
				whole.Catalog, whole.Problems = newCatalog(t, echoTool), nil
				b.agents.conversations[id] = &whole
			}
		}
		b.agents.mu.Unlock()
		for _, s := range streams[2:] {
			if got := s.nextEvent(); got != changed {
				t.Errorf("%q", got)
			}
		}
		for _, s := range streams {
			s.wantQuiet(time.Minute)
		}
	})
}

// A check that fails or panics is repeated.
func TestLookFails(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		listening := b.openStream(b.newGetRequest(b.startSession()...))
		for _, look := range []func() error{
			func() error { return errors.New("no database") },
			func() error { panic("on purpose") },
		} {
			b.agents.setRead(look)
			listening.wantQuiet(30 * time.Second)
		}
		b.agents.setRead(nil)
		if log := b.log.String(); !strings.Contains(log, "no database") || !strings.Contains(log, "on purpose") {
			t.Errorf("log: %s", log)
		}
		b.agents.relist(newCatalog(t, echoTool))
		if got := listening.nextEvent(); got != changed {
			t.Errorf("%q", got)
		}
	})
}

// Without listeners there are no checks.
func TestNobodyListens(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.server.CatalogMayHaveChanged()
		session := b.startSession()
		b.openStream(b.newGetRequest(session...))
		b.closeStreams(session[1])
		synctest.Wait()
		b.agents.takeReads()
		b.server.CatalogMayHaveChanged()
		<-time.After(time.Minute)
		if got := b.agents.takeReads(); got != 0 {
			t.Errorf("%d looks", got)
		}
	})
}

// The number of recorded lists is limited.
func TestToldIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got := b.server.TellSessions(100_100); got != 100_000 {
		t.Errorf("%d sessions", got)
	}
}

// slowAgents is slow, and counts the waiting callers.
type slowAgents struct {
	*fakeAgents
	mu        sync.Mutex
	now, most int
}

func (s *slowAgents) NamedConversation(ctx context.Context, a *agent.Agent, principal uuid.UUID, name, version string, client json.RawMessage) (*catalog.Conversation, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	<-time.After(100 * time.Millisecond)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return s.fakeAgents.NamedConversation(ctx, a, principal, name, version, client)
}

// The number of concurrent checks is limited.
func TestFewLooksAtOnce(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		agents := &slowAgents{}
		b := newBench(t, func(cfg *mcpserver.Config) {
			agents.fakeAgents = cfg.Agents.(*fakeAgents)
			cfg.Agents, cfg.Catalog = agents, agents
		})
		body, headers := modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
		streams := make([]*stream, 50)
		for i := range streams {
			named := strings.Replace(body, `"_meta":{`, `"_meta":{"dev.holdpoint/conversation":"`+strconv.Itoa(i)+`",`, 1)
			streams[i] = b.openStream(b.newRequest(t.Context(), named, headers...))
			streams[i].nextEvent()
		}
		b.changeTools(echoTool)
		for _, s := range streams {
			if got := s.nextEvent(); !strings.Contains(got, "list_changed") {
				t.Errorf("%q", got)
			}
		}
		agents.mu.Lock()
		defer agents.mu.Unlock()
		if agents.most != 8 {
			t.Errorf("%d at once", agents.most)
		}
	})
}
