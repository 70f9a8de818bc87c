// Package live owns what open dashboards know of each other and of the queue: the one look at the queue that all
// those of a process share (it asks what changed a few times a second while anybody watches, and tells everyone
// who does; what changed is for the page to fetch), and who has which call on the screen.
package live

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/approval"
)

// Interval is the pause between two looks.
const Interval = 250 * time.Millisecond

// beat is how many looks without a change pass before all are told the time:
// they hear from a stream that is well at least every 15 seconds.
const beat = 60

// waitsEvery is how many looks come between two at what costs more than the pulse.
const waitsEvery = 4

// Signal is what a dashboard is told.
type Signal struct {
	State   string    // differs when the queue does; opaque
	Pending int       // approvals that wait
	Now     time.Time // of the database
	// News are the ids of conversations in which something happened since the signal before; [AnyConversation]: in whichever.
	News []string
}

// AnyConversation stands for all ids of conversations.
const AnyConversation = "*"

// Config is what a [Feed] is made of. Pulse and Logger are required.
type Config struct {
	Pulse func(context.Context) (approval.Pulse, error)
	// Waits returns a text that differs when something else does that dashboards show: calls that wait for a
	// connection, who looks at what. It is asked once in a few looks. Nil: there is nothing else.
	Waits func(context.Context) (string, error)
	// News returns the conversations in which something happened since it was asked last. Nil: there are none.
	News     func() []string
	Logger   *slog.Logger
	Interval time.Duration // zero: [Interval]
}

// Feed tells its subscribers of changes. It looks only while it has some.
type Feed struct {
	cfg  Config
	ends context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu          sync.Mutex
	subscribers map[chan Signal]struct{}
	last        Signal
	stop        context.CancelFunc // of the looking; nil: nobody watches
}

// New makes a feed. [Feed.Close] ends it.
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

// Done is closed when the feed is: streams end.
func (f *Feed) Done() <-chan struct{} { return f.ends.Done() }

// Close ends the looking, for good.
func (f *Feed) Close() {
	f.end()
	f.work.Wait()
}

// Subscribe returns a channel that holds the newest signal, and what ends the
// subscription. A slow subscriber misses signals, never the last one.
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
		f.work.Go(func() { f.look(ctx) })
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

func (f *Feed) look(ctx context.Context) {
	ticker := time.NewTicker(f.cfg.Interval)
	defer ticker.Stop()
	failed, waits := false, ""
	for n := 0; ; n++ {
		pulse, err := f.cfg.Pulse(ctx)
		if err == nil && f.cfg.Waits != nil && n%waitsEvery == 0 {
			waits, err = f.cfg.Waits(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			f.cfg.Logger.Warn("looking at the queue", "error", err)
		case err == nil:
			f.tell(ctx, pulse, waits, f.news(), n%beat == 0)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (f *Feed) news() []string {
	if f.cfg.News == nil {
		return nil
	}
	return f.cfg.News()
}

// tell passes a change on. The state has no counter in it: it means the same in
// every process, so that a stream may go on in another.
func (f *Feed) tell(ctx context.Context, p approval.Pulse, waits string, news []string, anyway bool) {
	state := strconv.Itoa(p.Pending) + "." + strconv.FormatInt(p.Newest.UnixMicro(), 36) + "." +
		strconv.FormatInt(p.LastDecided.UnixMicro(), 36) + "." + strconv.FormatInt(p.Moved, 36) + "." + waits
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return // another look has begun
	}
	changed := state != f.last.State
	f.last = Signal{State: state, Pending: p.Pending, Now: p.Now}
	if !changed && !anyway && len(news) == 0 {
		return
	}
	for channel := range f.subscribers {
		signal := f.last
		signal.News = news
		replace(channel, signal)
	}
}

// replace puts the signal into the channel's one place. The lock is held: nobody else puts. The news of one that nobody
// took goes with it, as far as it is not too much.
func replace(channel chan Signal, signal Signal) {
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
