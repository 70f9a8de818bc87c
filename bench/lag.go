package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	changesPerSecond = 50
	// pace is the least time between two renewals of a page's list, as the dashboard's script keeps it.
	pace = 300 * time.Millisecond
)

// changes are those of the queue: calls come into it, and others leave it. It knows when.
type changes struct {
	stage    *stage
	sessions []string
	queue    chan *pendingCall // those that wait, the oldest first
	made     int

	mu         sync.Mutex
	came, left map[string]time.Time
}

func (s *stage) newChanges(ctx context.Context, calls []held) (*changes, error) {
	targets, err := s.examine(ctx, calls, 0)
	if err != nil {
		return nil, err
	}
	c := &changes{stage: s, made: len(calls), queue: make(chan *pendingCall, 10_000), came: map[string]time.Time{}, left: map[string]time.Time{}}
	for i, target := range targets {
		c.sessions = append(c.sessions, calls[i].wire.session)
		c.queue <- target
	}
	return c, nil
}

func (c *changes) note(in map[string]time.Time, id string) {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	in[id] = at
}

// board is one open dashboard: it renews its list as the dashboard's script does.
type board struct {
	desk   *desk
	news   chan struct{} // the queue's state changed
	lists  []list
	failed error
}

// list is what a board showed from one moment on.
type list struct {
	at  time.Time
	ids []string
}

// lag measures how long after a change the lists of many open dashboards show it, and what they take.
func lag(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx, "--max-connections", "20000")
	if err != nil {
		return err
	}
	defer s.close()
	open, lasting := pick(b, 200, 20), pick(b, 20*time.Second, 2*time.Second)
	boards, err := s.openBoards(ctx, open)
	if err != nil {
		return err
	}
	const waiting = 50 // all the time
	pairs := int(lasting.Seconds()) * changesPerSecond / 2
	clients, err := enlist(ctx, s.gated(), waiting, 16, 16)
	if err != nil {
		return err
	}
	defer clients.dismiss()
	calls, _, err := clients.park(0)
	if err != nil {
		return err
	}
	stop, err := runAll(ctx, boards)
	defer stop()
	if err != nil {
		return err
	}
	c, err := s.newChanges(ctx, calls)
	if err != nil {
		return err
	}
	before, began := s.meter(ctx), time.Now()
	if err := c.make(ctx, pairs); err != nil {
		return err
	}
	took := time.Since(began)
	serve, database := s.meter(ctx).since(before)
	err = s.profile(ctx, "dashboard", func(ctx context.Context, d time.Duration) error {
		return c.make(ctx, int(d.Seconds()+1)*changesPerSecond/2)
	})
	if err != nil {
		return err
	}
	time.Sleep(4 * pace) // the last changes are shown, too
	stop()
	return s.tellLag(c, boards, took, serve, database)
}

// runAll has all dashboards open, and returns what closes them.
func runAll(ctx context.Context, boards []*board) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	stop = func() {
		cancel()
		work.Wait()
	}
	ready := make(chan struct{}, len(boards))
	for _, each := range boards {
		work.Go(func() { each.run(ctx, func() { ready <- struct{}{} }) })
	}
	for i := range boards {
		select {
		case <-ready:
		case <-time.After(wirePatience):
			return stop, fmt.Errorf("%d of %d dashboards opened", i, len(boards))
		}
	}
	return stop, nil
}

// openBoards signs in n times, as 20 people.
func (s *stage) openBoards(ctx context.Context, n int) ([]*board, error) {
	var tokens []string
	for i := range min(n, 20) {
		token, err := s.person(ctx, "reviewer "+strconv.Itoa(i+1))
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	boards := make([]*board, n)
	for i := range boards {
		d, err := s.sit(ctx, tokens[i%len(tokens)])
		if err != nil {
			return nil, err
		}
		boards[i] = &board{desk: d, news: make(chan struct{}, 1)}
	}
	return boards, nil
}

// run keeps the stream open and the list new until the context ends.
func (b *board) run(ctx context.Context, opened func()) {
	defer b.desk.leave()
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		defer cancel()
		last := ""
		err := b.desk.watch(ctx, opened, func(state string) {
			if state == last {
				return
			}
			last = state
			select {
			case b.news <- struct{}{}:
			default: // it will look anyway
			}
		})
		b.failed = err
	})
	b.renew(ctx)
	cancel()
	work.Wait()
}

func (b *board) renew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.news:
		}
		began := time.Now()
		got, err := b.desk.fetch(ctx, "/", true)
		if err != nil {
			if ctx.Err() == nil {
				b.failed = err
			}
			return
		}
		b.lists = append(b.lists, list{time.Now(), idsOf(got.body)})
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(began.Add(pace))):
		}
	}
}

// idsOf are the calls in a list.
func idsOf(html []byte) []string {
	var ids []string
	for {
		_, rest, found := bytes.Cut(html, []byte(`data-call="`))
		if !found {
			return ids
		}
		id, rest, _ := bytes.Cut(rest, []byte(`"`))
		ids, html = append(ids, string(id)), rest
	}
}

// make parks a call and rejects the oldest, that many times at a steady rate.
func (c *changes) make(ctx context.Context, pairs int) error {
	const pause = 2 * time.Second / changesPerSecond
	work, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i := range pairs {
		at, number := began.Add(time.Duration(i)*pause), c.made+i
		work.Go(func() error { return c.park(ctx, at, number) })
		work.Go(func() error { return c.reject(ctx, at.Add(pause/2)) })
	}
	c.made += pairs
	return work.Wait()
}

func (c *changes) park(ctx context.Context, at time.Time, number int) error {
	if err := until(ctx, at); err != nil {
		return err
	}
	w, err := dial(ctx, c.stage.gated())
	if err != nil {
		return err
	}
	defer w.close()
	w.session = c.sessions[number%len(c.sessions)]
	call, err := w.park(parkedText(number))
	if err != nil {
		return fmt.Errorf("park call %d: %w", number, err)
	}
	c.note(c.came, call.id)
	targets, err := c.stage.examine(ctx, []held{call}, 0)
	if err != nil {
		return err
	}
	c.queue <- targets[0]
	return nil
}

// reject rejects the oldest call that waits.
func (c *changes) reject(ctx context.Context, at time.Time) error {
	if err := until(ctx, at); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case oldest := <-c.queue:
		err := c.stage.reject(ctx, oldest)
		c.note(c.left, oldest.id)
		return err
	}
}

func (s *stage) reject(ctx context.Context, c *pendingCall) error {
	_, err := s.post(ctx, "/api/v1/approvals/"+c.id+"/reject", map[string]any{"digest": c.digest, "reason": "measured"})
	return err
}

// until waits for a moment.
func until(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(at)):
		return nil
	}
}

// lags are how long after each change the board showed it. A call that came and left between two renewals was
// never shown.
func (b *board) lags(h *changes) []time.Duration {
	var lags []time.Duration
	shown := map[string]bool{}
	for n, l := range b.lists {
		now := map[string]bool{}
		for _, id := range l.ids {
			now[id] = true
			if at, known := h.came[id]; known && !shown[id] && n > 0 {
				lags = append(lags, max(0, l.at.Sub(at)))
			}
		}
		for id := range shown {
			if at, known := h.left[id]; known && !now[id] {
				lags = append(lags, max(0, l.at.Sub(at)))
			}
		}
		shown = now
	}
	return lags
}

func (s *stage) tellLag(h *changes, boards []*board, took time.Duration, serve, database float64) error {
	var all []time.Duration
	renewals := 0
	for _, b := range boards {
		if b.failed != nil {
			return b.failed
		}
		renewals += len(b.lists)
		found := b.lags(h)
		if changes := len(h.came) + len(h.left); len(found) < changes/2 {
			return fmt.Errorf("a dashboard showed %d of %d changes", len(found), changes)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	at := fmt.Sprintf("%d dashboards, %d changes/s: ", len(boards), changesPerSecond)
	s.report.add("dashboard", at+"change to every list, p50", "ms", percentile(all, 0.50, time.Millisecond))
	s.report.add("dashboard", at+"change to every list, p99", "ms", percentile(all, 0.99, time.Millisecond)).below(1000)
	s.report.add("dashboard", at+"lists sent", "per second", float64(renewals)/took.Seconds())
	if serve > 0 {
		micros := float64(took.Microseconds())
		s.report.add("dashboard", at+"processor time of serve", "cores", serve/micros)
		s.report.add("dashboard", at+"processor time of PostgreSQL", "cores", database/micros)
	}
	return nil
}
