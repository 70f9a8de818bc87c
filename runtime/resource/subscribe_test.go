package resource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// newProcess returns another process of the world.
func (w *world) newProcess(change ...func(*resource.Config)) *resource.Service {
	w.t.Helper()
	cfg := resource.Config{
		Catalog: w, Sources: w, Upstream: w, Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(0, w.at.Load()) }, Returned: w.findReturned,
		Pause: 2 * time.Millisecond, Linger: time.Millisecond, Renew: 5 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := resource.New(cfg)
	check(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// deliverNotices delivers notifications to processes, as the runtime does.
func (w *world) deliverNotices(heard func(payload string)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var done sync.WaitGroup
	w.t.Cleanup(func() { cancel(); done.Wait() })
	ready, once := make(chan struct{}), sync.Once{}
	done.Go(func() {
		w.db.Listen(ctx, []postgres.Channel{resource.Channel}, func(_ postgres.Channel, payload string) { heard(payload) },
			func() { once.Do(func() { close(ready) }) })
	})
	select {
	case <-ready:
	case <-time.After(3 * time.Minute):
		w.t.Fatal("nothing listens")
	}
}

// newConversation returns another conversation of the same agent.
func (w *world) newConversation() resource.Who {
	return resource.Who{AgentID: w.who.AgentID, Principal: w.who.Principal, Conversation: uuid.New()}
}

// told records a client's notifications.
type told struct {
	mu    sync.Mutex
	uris  []string
	lists []resource.Kind
}

func (w *world) follow(changes <-chan resource.Change) *told {
	var got told
	go func() {
		for {
			select {
			case c := <-changes:
				got.mu.Lock()
				got.uris, got.lists = append(got.uris, c.Updated...), append(got.lists, c.Lists...)
				got.mu.Unlock()
			case <-w.t.Context().Done():
				return
			}
		}
	}()
	return &got
}

func (g *told) has(uri string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.uris, uri)
}

func (g *told) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.uris)
}

// listSubscriptions returns the current subscriptions on the skill's server.
func (w *world) listSubscriptions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var now []string
	for _, sent := range w.sent {
		var skill, what, uri string
		if _, err := fmt.Sscan(sent, &skill, &what, &uri); err != nil {
			continue
		}
		switch what {
		case "subscribe":
			if !slices.Contains(now, skill+" "+uri) {
				now = append(now, skill+" "+uri)
			}
		case "unsubscribe":
			now = slices.DeleteFunc(now, func(s string) bool { return s == skill+" "+uri })
		}
	}
	return now
}

func (w *world) skillID(name string) uuid.UUID {
	for _, o := range w.offers {
		if o.Skill.Name == name {
			return o.Skill.ID
		}
	}
	return uuid.Nil
}

// A session subscribes in one process and streams from another. The change arrives in a third.
func TestUpdatesReachWhoeverIsSubscribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("files")
	asked, streams, hears := w.newProcess(), w.newProcess(), w.newProcess()
	all := []*resource.Service{asked, streams, hears}
	w.deliverNotices(func(payload string) {
		for _, s := range all {
			s.HandleNotification(payload)
		}
	})
	mine, other := w.who, w.newConversation()
	got, gotOther := w.follow(streams.FollowSession(t.Context(), mine)), w.follow(streams.FollowSession(t.Context(), other))
	held := w.follow(hears.FollowSession(t.Context(), other)) // so that this process listens for x:2
	check(t, asked.Subscribe(t.Context(), mine, "x:1"))
	check(t, asked.Subscribe(t.Context(), mine, "x:1"))
	check(t, asked.Subscribe(t.Context(), other, "x:2"))
	files := w.skillID("files")
	eventually.Holds(t, "x:2 is told", func() bool {
		hears.Updated(files, uuid.Nil, "x:2")
		return gotOther.has("x:2") && held.has("x:2")
	})
	eventually.Holds(t, "x:1 is told", func() bool {
		streams.Updated(files, uuid.Nil, "x:1")
		return got.has("x:1")
	})
	if got.has("x:2") || gotOther.has("x:1") || held.has("x:1") {
		t.Error("a conversation was told of another's resource")
	}
	if want := []string{"agent resource.subscribed files x:1", "agent resource.subscribed files x:1"}; !slices.Equal(w.auditEvents(), want) {
		t.Errorf("recorded %q", w.auditEvents())
	}
	// The subscription lasts until the last follower leaves.
	check(t, asked.Unsubscribe(t.Context(), mine, "x:1"))
	eventually.Holds(t, "x:1 is let go of", func() bool { return slices.Equal(w.listSubscriptions(), []string{"files x:2"}) })
	check(t, asked.Unsubscribe(t.Context(), mine, "x:1"))
	check(t, asked.Ended(t.Context(), other.Conversation))
	asked.CatchUp()
	streams.CatchUp()
	hears.CatchUp()
	eventually.Holds(t, "x:2 is let go of", func() bool { return len(w.listSubscriptions()) == 0 })
}

func TestSubscribeWhatMayBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("files", setGated)
	s := w.newProcess()
	for _, uri := range []string{"x:1", "x:unheard-of"} {
		if err := s.Subscribe(t.Context(), w.who, uri); !errors.Is(err, resource.ErrDenied) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if sent := w.takeRequests(); len(sent) != 0 {
		t.Errorf("asked %q", sent)
	}
	if want := []string{"agent resource.denied <nil> x:1", "agent resource.denied <nil> x:unheard-of"}; !slices.Equal(w.auditEvents(), want) {
		t.Errorf("recorded %q", w.auditEvents())
	}
	w.returned["x:1"] = []string{"files"}
	check(t, s.Subscribe(t.Context(), w.who, "x:1"))
	if err := s.Subscribe(t.Context(), w.newConversation(), "x:1"); !errors.Is(err, resource.ErrDenied) {
		t.Errorf("another conversation: %v", err)
	}
}

// A subscription ends when its resource becomes unreadable, and returns with the permission.
func TestSubscriptionsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("files")
	s := w.newProcess()
	w.deliverNotices(s.HandleNotification)
	check(t, s.Subscribe(t.Context(), w.who, "x:1"))
	got := w.follow(s.FollowSession(t.Context(), w.who))
	files := w.skillID("files")
	updates := 0
	update := func() { updates++; s.Updated(files, uuid.Nil, "x:1") }
	eventually.Holds(t, "told", func() bool { update(); return got.has("x:1") })
	opens := func(open bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.offers[0].Open = open
	}
	opens(false)
	eventually.Holds(t, "let go of", func() bool { return len(w.listSubscriptions()) == 0 })
	allowed := updates // some may still be in flight
	update()
	w.takeRequests()
	opens(true)
	eventually.Holds(t, "subscribed again", func() bool { return len(w.listSubscriptions()) == 1 })
	if got.count() > allowed {
		t.Error("notified of an unreadable resource")
	}
	eventually.Holds(t, "told again", func() bool { update(); return got.count() > allowed })
}

// An update on one person's connection does not reach another person.
func TestUpdatesOfPeoplesOwnConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := uuid.New()
	w.who.Principal = ann
	w.addSkill("files", func(o *catalog.Offer) { o.Server.PerUser, o.Server.Principal = true, ann })
	s := w.newProcess(func(cfg *resource.Config) { cfg.Linger = time.Hour })
	w.deliverNotices(s.HandleNotification)
	check(t, s.Subscribe(t.Context(), w.who, "x:1"))
	check(t, s.Subscribe(t.Context(), w.who, "x:2"))
	got := w.follow(s.FollowSession(t.Context(), w.who))
	files := w.skillID("files")
	s.Updated(files, uuid.New(), "x:1")
	s.Updated(files, uuid.Nil, "x:1")
	eventually.Holds(t, "told", func() bool { s.Updated(files, ann, "x:2"); return got.has("x:2") })
	if got.has("x:1") {
		t.Error("told of another's")
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("files")
	s := w.newProcess(func(cfg *resource.Config) { cfg.Linger = time.Hour })
	for n := range resource.MaxSubscriptions - 1 {
		check(t, s.Subscribe(t.Context(), w.who, fmt.Sprint("x:", n)))
	}
	var group sync.WaitGroup
	errs := make([]error, 8)
	for n := range errs { // one of them is the last
		group.Go(func() { errs[n] = s.Subscribe(t.Context(), w.who, fmt.Sprint("y:", n)) })
	}
	group.Wait()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else if !errors.Is(err, resource.ErrTooMany) {
			t.Error(err)
		}
	}
	if taken != 1 {
		t.Errorf("%d more", taken)
	}
	check(t, s.Subscribe(t.Context(), w.who, "x:1")) // again
	check(t, s.Subscribe(t.Context(), w.newConversation(), "z:1"))
	check(t, s.Unsubscribe(t.Context(), w.who, "x:1"))
	check(t, s.Subscribe(t.Context(), w.who, "z:1"))
}

// A server that repeats an update causes few notifications, and an update without a subscription none.
func TestFloodOfUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSkill("files")
	s := w.newProcess(func(cfg *resource.Config) { cfg.Linger, cfg.Pause = time.Hour, time.Hour })
	payloads := make(chan string, 1000)
	w.deliverNotices(func(payload string) { payloads <- payload })
	check(t, s.Subscribe(t.Context(), w.who, "x:1"))
	<-payloads // of the subscription
	files := w.skillID("files")
	for n := range 20_000 {
		s.Updated(files, uuid.Nil, "x:1")
		s.Updated(files, uuid.Nil, fmt.Sprint("y:", n))
		s.Updated(uuid.New(), uuid.Nil, "x:1")
	}
	first := <-payloads
	var notice struct{ Updated []any }
	if err := json.Unmarshal([]byte(first), &notice); err != nil || len(notice.Updated) != 1 {
		t.Errorf("%s: %v", first, err)
	}
	_, err := w.db.Pool().Exec(t.Context(), `SELECT pg_notify($1, 'the end')`, resource.Channel)
	check(t, err)
	if next := <-payloads; next != "the end" {
		t.Errorf("another: %s", next)
	}
}

func TestSubscribeFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	without := w.addSkill("files")
	without.errs["subscribe"] = &tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(`{"code":-32601,"message":"none"}`)}
	s := w.newProcess(func(cfg *resource.Config) { cfg.Linger = time.Hour })
	err := s.Subscribe(t.Context(), w.who, "x:1")
	failure, is := errors.AsType[*resource.SkillError](err)
	if !is || string(failure.Failure.RPC) != `{"code":-32601,"message":"none"}` {
		t.Errorf("%v", err)
	}
	w.addSkill("other") // has the resource
	check(t, s.Subscribe(t.Context(), w.who, "x:1"))
	if open := w.listSubscriptions(); !slices.Contains(open, "other x:1") {
		t.Errorf("subscribed to %q", open)
	}
}
