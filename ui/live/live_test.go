package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/ui/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

type queue struct {
	pending, looks atomic.Int64
	broken         atomic.Bool
}

func (q *queue) pulse(context.Context) (approval.Pulse, error) {
	q.looks.Add(1)
	if q.broken.Load() {
		return approval.Pulse{}, errors.New("no database")
	}
	return approval.Pulse{Pending: int(q.pending.Load()), Now: time.Unix(100, 0)}, nil
}

func newFeed(t *testing.T, q *queue) *live.Feed {
	t.Helper()
	feed, err := live.New(live.Config{Pulse: q.pulse, Logger: slog.New(slog.DiscardHandler), Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	return feed
}

func receive(t *testing.T, signals <-chan live.Signal, pending int) live.Signal {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case s := <-signals:
			if s.Pending == pending {
				return s
			}
		case <-timeout:
			t.Fatalf("no signal of %d pending", pending)
		}
	}
}

func TestEverySubscriberIsTold(t *testing.T) {
	t.Parallel()
	q := &queue{}
	feed := newFeed(t, q)
	one, cancelOne := feed.Subscribe()
	two, cancelTwo := feed.Subscribe()
	defer cancelTwo()
	before := receive(t, one, 0)
	receive(t, two, 0)
	q.broken.Store(true)
	q.pending.Store(3)
	q.broken.Store(false)
	if after := receive(t, one, 3); after.State == before.State {
		t.Error("the state is the same after a change")
	}
	receive(t, two, 3)
	cancelOne()
	q.pending.Store(4)
	receive(t, two, 4)
	late, cancelLate := feed.Subscribe()
	defer cancelLate()
	receive(t, late, 4)
}

// After a failed poll, subscribers get a signal although nothing has changed: their requests may have failed too.
func TestRecoveryIsSignaled(t *testing.T) {
	t.Parallel()
	polls := 0
	feed, err := live.New(live.Config{Logger: slog.New(slog.DiscardHandler), Interval: time.Millisecond, Pulse: func(ctx context.Context) (approval.Pulse, error) {
		switch polls++; polls {
		case 2:
			return approval.Pulse{}, errors.New("no database")
		case 4:
			<-ctx.Done() // no later poll sends the signal
		}
		return approval.Pulse{Now: time.Unix(int64(polls), 0)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	signals, cancel := feed.Subscribe()
	defer cancel()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case s := <-signals:
			if s.Now.Unix() == 3 {
				return
			}
		case <-timeout:
			t.Fatal("no signal after the failed poll")
		}
	}
}

func TestNobodyWatchesNobodyLooks(t *testing.T) {
	t.Parallel()
	q := &queue{}
	feed := newFeed(t, q)
	signals, cancel := feed.Subscribe()
	receive(t, signals, 0)
	cancel()
	feed.Close()
	looks := q.looks.Load()
	if _, cancel := feed.Subscribe(); q.looks.Load() != looks {
		cancel()
		t.Error("a closed feed looks")
	}
	select {
	case <-feed.Done():
	default:
		t.Error("a closed feed is not done")
	}
}

// Calls that wait for something other than a decision are reported too.
func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	q := &queue{}
	var waits atomic.Value
	waits.Store("none")
	feed, err := live.New(live.Config{
		Pulse: q.pulse, Logger: slog.New(slog.DiscardHandler), Interval: time.Millisecond,
		Waits: func(context.Context) (string, error) { return waits.Load().(string), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	signals, cancel := feed.Subscribe()
	defer cancel()
	first := receive(t, signals, 0)
	waits.Store("some")
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case s := <-signals:
			if s.State != first.State {
				return
			}
		case <-timeout:
			t.Fatal("no signal")
		}
	}
}

// Each conversation with news is reported once, even to slow listeners.
func TestNewsAreTold(t *testing.T) {
	t.Parallel()
	q := &queue{}
	news, asked := make(chan []string, 3), make(chan struct{})
	feed, err := live.New(live.Config{
		Pulse: q.pulse, Logger: slog.New(slog.DiscardHandler), Interval: time.Millisecond,
		News: func() []string {
			select {
			case list := <-news:
				return list
			case asked <- struct{}{}:
				return nil
			default:
				return nil
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	signals, cancel := feed.Subscribe()
	defer cancel()
	receive(t, signals, 0)
	news <- []string{"a"}
	news <- []string{"b", "c"}
	for len(news) > 0 {
		<-asked // one check later
	}
	for range 3 {
		<-asked // reports the news
	}
	heard := (<-signals).News
	slices.Sort(heard)
	if !slices.Equal(heard, []string{"a", "b", "c"}) {
		t.Errorf("heard of %v", heard)
	}
	news <- slices.Repeat([]string{"d"}, 200)
	news <- []string{"e"}
	for len(news) > 0 {
		<-asked
	}
	for range 3 {
		<-asked
	}
	if heard := (<-signals).News; !slices.Equal(heard, []string{live.AnyConversation}) {
		t.Errorf("of very many it heard %d", len(heard))
	}
}

// Viewers are told without a change of the state, which makes lists fetch themselves again.
func TestViewersAreNoChangeOfTheQueue(t *testing.T) {
	t.Parallel()
	q := &queue{}
	var viewers atomic.Value
	viewers.Store(`{}`)
	feed, err := live.New(live.Config{
		Pulse: q.pulse, Logger: slog.New(slog.DiscardHandler), Interval: time.Millisecond,
		Viewers: func(context.Context) (json.RawMessage, error) {
			text, _ := viewers.Load().(string)
			return json.RawMessage(text), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	signals, cancel := feed.Subscribe()
	defer cancel()
	first := receive(t, signals, 0)
	viewers.Store(`{"call":[]}`)
	for told := ""; told != `{"call":[]}`; {
		s := receive(t, signals, 0)
		if told = string(s.Viewers); s.State != first.State {
			t.Fatalf("the state changed from %s to %s", first.State, s.State)
		}
	}
}
