package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	changesPerSecond = 50
	// pace is the minimum time between two renewals of a list, as in the dashboard's script.
	pace = 300 * time.Millisecond
)

// changes adds calls to the queue, removes others, and records when.
type changes struct {
	stage    *stage
	sessions []string
	queue    chan *pendingCall // pending calls, oldest first
	made     int

	mu         sync.Mutex
	came, left map[string]time.Time
}

func (s *stage) newChanges(ctx context.Context, calls []heldCall) (*changes, error) {
	targets, err := s.readApprovals(ctx, calls, 0)
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

func (c *changes) noteTime(in map[string]time.Time, id string) {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	in[id] = at
}

// board is one open dashboard. It renews its list as the dashboard's script does.
type board struct {
	desk   *dashboardClient
	news   chan struct{} // the queue's state changed
	lists  []shownList
	failed error
}

// shownList holds the calls that a board shows from one moment on.
type shownList struct {
	at  time.Time
	ids []string
}

// measureLag measures how soon the lists of many open dashboards show a change, and the processor time that this takes.
func measureLag(ctx context.Context, s *stage) error {
	open, lasting := choose(s.bench, 200, 20), choose(s.bench, 20*time.Second, 2*time.Second)
	boards, err := s.openBoards(ctx, open)
	if err != nil {
		return err
	}
	const waiting = 50 // all the time
	pairs := int(lasting.Seconds()) * changesPerSecond / 2
	clients, err := connectClients(ctx, s.gatedTarget(), waiting, 16, 16)
	if err != nil {
		return err
	}
	defer clients.close()
	calls, _, err := clients.parkCalls(0)
	if err != nil {
		return err
	}
	stop, err := openAll(ctx, boards)
	defer stop()
	if err != nil {
		return err
	}
	c, err := s.newChanges(ctx, calls)
	if err != nil {
		return err
	}
	before, began := s.readMeter(ctx), time.Now()
	if err := c.makeChanges(ctx, pairs); err != nil {
		return err
	}
	took := time.Since(began)
	serve, database := s.readMeter(ctx).usedSince(before)
	err = s.profileLoad(ctx, "dashboard", func(ctx context.Context, d time.Duration) error {
		return c.makeChanges(ctx, int(d.Seconds()+1)*changesPerSecond/2)
	})
	if err != nil {
		return err
	}
	time.Sleep(4 * pace) // until the last changes are shown
	stop()
	return s.reportLag(c, boards, took, serve, database)
}

// openAll opens all dashboards. The result closes them.
func openAll(ctx context.Context, boards []*board) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	stop = func() {
		cancel()
		work.Wait()
	}
	ready := make(chan struct{}, len(boards))
	for _, each := range boards {
		work.Go(func() { each.keepOpen(ctx, func() { ready <- struct{}{} }) })
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

// openBoards signs in n times, as up to 20 reviewers.
func (s *stage) openBoards(ctx context.Context, n int) ([]*board, error) {
	var tokens []string
	for i := range min(n, 20) {
		token, err := s.inviteReviewer(ctx, "reviewer "+strconv.Itoa(i+1))
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	boards := make([]*board, n)
	for i := range boards {
		d, err := s.signIn(ctx, tokens[i%len(tokens)])
		if err != nil {
			return nil, err
		}
		boards[i] = &board{desk: d, news: make(chan struct{}, 1)}
	}
	return boards, nil
}

// inviteReviewer invites a reviewer, redeems the invitation and returns their token.
func (s *stage) inviteReviewer(ctx context.Context, name string) (string, error) {
	invited, err := client.Value(s.api.CreateInvitation(ctx, client.InvitationRequest{Name: name, Roles: []string{"reviewer"}}))
	if err != nil {
		return "", err
	}
	link, err := url.Parse(invited.URL)
	if err != nil {
		return "", err
	}
	guest, err := s.newAPI(link.Query().Get("key"))
	if err != nil {
		return "", err
	}
	made, err := client.Value(guest.RedeemInvitation(ctx))
	return made.Key, err
}

// keepOpen follows the stream and renews the list until the context ends.
func (b *board) keepOpen(ctx context.Context, opened func()) {
	defer b.desk.close()
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		defer cancel()
		last := ""
		err := b.desk.watchEvents(ctx, opened, func(state string) {
			if state == last {
				return
			}
			last = state
			select {
			case b.news <- struct{}{}:
			default: // a renewal is due already
			}
		})
		b.failed = err
	})
	b.renewLists(ctx)
	cancel()
	work.Wait()
}

func (b *board) renewLists(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.news:
		}
		began := time.Now()
		got, err := b.desk.fetchPage(ctx, "/", true)
		if err != nil {
			if ctx.Err() == nil {
				b.failed = err
			}
			return
		}
		b.lists = append(b.lists, shownList{time.Now(), findCallIDs(got.body)})
		if pause.For(ctx, time.Until(began.Add(pace))) != nil {
			return
		}
	}
}

// findCallIDs returns the IDs of the calls in a list.
func findCallIDs(html []byte) []string {
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

// makeChanges parks a call and rejects the oldest one, pairs times at a steady rate.
func (c *changes) makeChanges(ctx context.Context, pairs int) error {
	const gap = 2 * time.Second / changesPerSecond
	work, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i := range pairs {
		at, number := began.Add(time.Duration(i)*gap), c.made+i
		work.Go(func() error { return c.parkAt(ctx, at, number) })
		work.Go(func() error { return c.rejectOldestAt(ctx, at.Add(gap/2)) })
	}
	c.made += pairs
	return work.Wait()
}

func (c *changes) parkAt(ctx context.Context, at time.Time, number int) error {
	if err := pause.For(ctx, time.Until(at)); err != nil {
		return err
	}
	w, err := dialTarget(ctx, c.stage.gatedTarget())
	if err != nil {
		return err
	}
	defer w.close()
	w.session = c.sessions[number%len(c.sessions)]
	call, err := w.parkCall(parkedText(number))
	if err != nil {
		return fmt.Errorf("park call %d: %w", number, err)
	}
	c.noteTime(c.came, call.id)
	targets, err := c.stage.readApprovals(ctx, []heldCall{call}, 0)
	if err != nil {
		return err
	}
	c.queue <- targets[0]
	return nil
}

// rejectOldestAt rejects the oldest pending call.
func (c *changes) rejectOldestAt(ctx context.Context, at time.Time) error {
	if err := pause.For(ctx, time.Until(at)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case oldest := <-c.queue:
		err := c.stage.rejectCall(ctx, oldest)
		c.noteTime(c.left, oldest.id)
		return err
	}
}

func (s *stage) rejectCall(ctx context.Context, c *pendingCall) error {
	_, err := s.api.Reject(ctx, c.id, client.RejectRequest{Digest: c.digest, Reason: "measured"})
	return err
}

// findLags returns the time from each change to the list that shows it. A call that comes and goes between two renewals is not shown.
func (b *board) findLags(h *changes) []time.Duration {
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

func (s *stage) reportLag(h *changes, boards []*board, took time.Duration, serve, database float64) error {
	var all []time.Duration
	renewals := 0
	for _, b := range boards {
		if b.failed != nil {
			return b.failed
		}
		renewals += len(b.lists)
		found := b.findLags(h)
		if changes := len(h.came) + len(h.left); len(found) < changes/2 {
			return fmt.Errorf("a dashboard showed %d of %d changes", len(found), changes)
		}
		all = append(all, found...)
	}
	at := fmt.Sprintf("%d dashboards, %d changes/s: ", len(boards), changesPerSecond)
	_, most := s.report.addTimes("dashboard", at+"change to every list, ", all)
	most.aimBelow(1000)
	s.report.addFigure("dashboard", at+"lists sent", "per second", float64(renewals)/took.Seconds())
	if serve > 0 {
		micros := float64(took.Microseconds())
		s.report.addFigure("dashboard", at+"processor time of serve", "cores", serve/micros)
		s.report.addFigure("dashboard", at+"processor time of PostgreSQL", "cores", database/micros)
	}
	return nil
}
