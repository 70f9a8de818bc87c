// Package live signals changes to open dashboards and records who has which call on the screen. A process polls the queue a few
// times a second for all its dashboards while there are any. Pages fetch the changed content themselves.
package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/approval"
)

// Interval is the pause between two polls.
const Interval = 250 * time.Millisecond

// beat is the number of polls after which all subscribers get a signal even without a change, so a healthy stream has one at
// least every 15 seconds. They also get one after polls that failed, because their requests may have failed too.
const beat = 60

// waitsEvery is the number of pulses for each of the more expensive reads.
const waitsEvery = 4

// Signal tells a dashboard about a change.
type Signal struct {
	State   string    // differs when the queue does; opaque
	Pending int       // calls and plans that wait for a decision
	Now     time.Time // of the database
	// Viewers tells who has which call on the screen. They are no part of State, so that lists are not fetched again for them.
	Viewers json.RawMessage
	// News are the IDs of conversations that have changed since the signal before, or [AnyConversation].
	News []string
}

// AnyConversation stands for all IDs of conversations.
const AnyConversation = "*"

// Config configures a [Feed]. Pulse and Logger are required.
type Config struct {
	Pulse func(context.Context) (approval.Pulse, error)
	// Waits returns a text that changes with other things that dashboards show: questions, and calls that wait for a connection.
	// It is called less often than Pulse. It may be nil.
	Waits func(context.Context) (string, error)
	// Viewers returns [Signal.Viewers], always in the same order. It is called as often as Waits. It may be nil.
	Viewers func(context.Context) (json.RawMessage, error)
	// News returns the conversations that have changed since its last call. It may be nil.
	News     func() []string
	Logger   *slog.Logger
	Interval time.Duration // zero: [Interval]
}

// Feed signals changes to its subscribers. It polls only while it has subscribers.
type Feed struct {
	cfg  Config
	ends context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu          sync.Mutex
	subscribers map[chan Signal]struct{}
	last        Signal
	stop        context.CancelFunc // stops polling; nil: no subscribers
}

// New returns a feed. [Feed.Close] ends it.
func New(cfg Config) (*Feed, error) {
	if cfg.Pulse == nil || cfg.Logger == nil {
		return nil, errors.New("make live feed: Pulse and Logger are required")
	}
	if cfg.Interval == 0 {
		cfg.Interval = Interval
	}
	f := &Feed{cfg: cfg, subscribers: make(map[chan Signal]struct{})}
	f.ends, f.end = context.WithCancel(context.Background())
	return f, nil
}

// Done is closed when the feed is closed, so that streams end.
func (f *Feed) Done() <-chan struct{} { return f.ends.Done() }

// Close ends polling.
func (f *Feed) Close() {
	f.end()
	f.work.Wait()
}

// Subscribe returns a channel that holds the newest signal, and a function that ends the subscription. A slow subscriber misses
// signals, but never the last one.
func (f *Feed) Subscribe() (signals <-chan Signal, cancel func()) {
	channel := make(chan Signal, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers[channel] = struct{}{}
	if f.last.State != "" {
		channel <- f.last
	}
	if f.stop == nil && f.ends.Err() == nil {
		var ctx context.Context
		ctx, f.stop = context.WithCancel(f.ends)
		f.work.Go(func() { f.poll(ctx) })
	}
	return channel, func() { f.unsubscribe(channel) }
}

func (f *Feed) unsubscribe(channel chan Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscribers, channel)
	if len(f.subscribers) == 0 && f.stop != nil {
		f.stop()
		f.stop, f.last = nil, Signal{}
	}
}

func (f *Feed) poll(ctx context.Context) {
	ticker := time.NewTicker(f.cfg.Interval)
	defer ticker.Stop()
	failed, waits := false, ""
	var viewers json.RawMessage
	for n := 0; ; n++ {
		pulse, err := f.cfg.Pulse(ctx)
		if err == nil && f.cfg.Waits != nil && n%waitsEvery == 0 {
			waits, err = f.cfg.Waits(ctx)
		}
		if err == nil && f.cfg.Viewers != nil && n%waitsEvery == 0 {
			viewers, err = f.cfg.Viewers(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			f.cfg.Logger.Warn("read queue for live updates", "error", err)
		case err == nil:
			f.publish(ctx, pulse, waits, viewers, f.takeNews(), failed || n%beat == 0)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (f *Feed) takeNews() []string {
	if f.cfg.News == nil {
		return nil
	}
	return f.cfg.News()
}

// publish sends a change to all subscribers. The state has the same meaning in every process, so a stream may continue in another
// one.
func (f *Feed) publish(ctx context.Context, p approval.Pulse, waits string, viewers json.RawMessage, news []string, anyway bool) {
	state := strconv.Itoa(p.Pending) + "." + strconv.FormatInt(p.Newest.UnixMicro(), 36) + "." +
		strconv.FormatInt(p.LastDecided.UnixMicro(), 36) + "." + strconv.FormatInt(p.Moved, 36) + "." + waits
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return // another poll has begun
	}
	changed := state != f.last.State || !bytes.Equal(viewers, f.last.Viewers)
	f.last = Signal{State: state, Pending: p.CountUndecided(), Now: p.Now, Viewers: viewers}
	if !changed && !anyway && len(news) == 0 {
		return
	}
	for channel := range f.subscribers {
		signal := f.last
		signal.News = news
		replaceSignal(channel, signal)
	}
}

// replaceSignal replaces the signal in a channel and keeps the news of the old one. The caller holds the lock, so no one else
// sends.
func replaceSignal(channel chan Signal, signal Signal) {
	select {
	case missed := <-channel:
		if signal.News = slices.Concat(missed.News, signal.News); len(signal.News) > maxNews {
			signal.News = []string{AnyConversation}
		}
	default:
	}
	channel <- signal
}

// maxNews bounds how many conversations a signal names.
const maxNews = 128
