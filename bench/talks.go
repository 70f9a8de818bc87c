package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// talks measures conversations that Holdpoint runs itself, while all of them wait for a person: what they take, and how soon they go on
// when many are decided about at the same moment.
func talks(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	mind, err := s.think(ctx)
	if err != nil {
		return err
	}
	idle, err := s.settled(ctx)
	if err != nil {
		return err
	}
	connected, err := s.connections(ctx)
	if err != nil {
		return err
	}
	n := pick(b, 5000, 300)
	began := time.Now()
	if err := s.converse(ctx, n); err != nil {
		return err
	}
	s.sayf("  %d conversations wait after %.1f s", n, time.Since(began).Seconds())
	waiting, err := s.settled(ctx)
	if err != nil {
		return err
	}
	now, err := s.connections(ctx)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("%d conversations parked: ", n)
	s.report.add("talks", at+"goroutines each", "per conversation", max(waiting.goroutines-idle.goroutines, 0)/float64(n)).atMost(0.01)
	s.report.add("talks", at+"connections to the database each", "per conversation", float64(max(now-connected, 0))/float64(n)).atMost(0.01)
	s.report.add("talks", at+"memory of serve", "KiB/conversation", float64(waiting.rss-idle.rss)/1024/float64(n))
	return s.resume(ctx, mind, n)
}

// mind is the model of the conversations, and when it was asked again.
type mind struct {
	mu    sync.Mutex
	asked map[string]time.Time // after the result, by what was said
}

// think serves the model, and gives it to the agent.
func (s *stage) think(ctx context.Context) (*mind, error) {
	m := &mind{asked: map[string]time.Time{}}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve model: %w", err)
	}
	serving := &http.Server{Handler: modelserver.New(m.answer), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = serving.Close() })
	go func() { _ = serving.Serve(listener) }()
	_, err = s.patch(ctx, "/api/v1/agents/"+agentName, map[string]any{
		"model": map[string]string{"provider": "openai", "name": "bench", "base_url": "http://" + listener.Addr().String() + "/v1"},
	})
	return m, err
}

func (m *mind) answer(r *modelserver.Request) modelserver.Answer {
	if len(r.Last().Results) > 0 {
		m.mu.Lock()
		m.asked[r.Messages[0].Text] = time.Now()
		m.mu.Unlock()
		return modelserver.Answer{Text: "Done."}
	}
	arguments, err := json.Marshal(said{Text: r.Last().Text})
	if err != nil {
		return modelserver.Answer{Text: err.Error()}
	}
	return modelserver.Answer{Text: "I need to.", Calls: []modelserver.Call{{Name: "gated__echo", Arguments: string(arguments)}}}
}

func talkName(i int) string { return fmt.Sprintf("conversation %d", i) }

// converse begins n conversations, and waits until each waits for a person.
func (s *stage) converse(ctx context.Context, n int) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			request, err := s.request(ctx, http.MethodPost, "/api/v1/conversations", map[string]string{"message": talkName(i)})
			if err != nil {
				return err
			}
			_, err = s.sendAs(request, s.key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.serve.until(ctx, 5*time.Minute, func(ctx context.Context) bool {
		var waiting int
		err := s.pool.QueryRow(ctx, `SELECT count(*) FROM loops WHERE status = 'waiting'`).Scan(&waiting)
		return err == nil && waiting == n
	})
}

func (s *stage) connections(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`).Scan(&n)
	return n, err
}

const decidedAtOnce = 50

// resume approves calls of many conversations at the same moment, again and again, and measures how soon their model hears of it.
func (s *stage) resume(ctx context.Context, m *mind, n int) error {
	var took []time.Duration
	for range min(pick(s.bench, 20, 3), n/decidedAtOnce) {
		shown, err := s.nextApprovals(ctx)
		if err != nil {
			return err
		}
		decided, err := s.approveAtOnce(ctx, shown)
		if err != nil {
			return err
		}
		err = s.serve.until(ctx, time.Minute, func(context.Context) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return !slices.ContainsFunc(shown, func(a shownApproval) bool { return m.asked[a.Arguments.Text].IsZero() })
		})
		if err != nil {
			return err
		}
		m.mu.Lock()
		for i, a := range shown {
			took = append(took, m.asked[a.Arguments.Text].Sub(decided[i]))
		}
		m.mu.Unlock()
	}
	slices.Sort(took)
	at := fmt.Sprintf("%d conversations parked, %d decided at once: approve request to the model being asked, ", n, decidedAtOnce)
	s.report.add("talks", at+"p50", "ms", percentile(took, 0.50, time.Millisecond))
	s.report.add("talks", at+"p99", "ms", percentile(took, 0.99, time.Millisecond)).atMost(1000)
	return nil
}

// shownApproval is an approval, as far as it is looked at.
type shownApproval struct {
	ID        string `json:"id"`
	Digest    string `json:"digest"`
	Arguments said   `json:"arguments"`
}

func (s *stage) nextApprovals(ctx context.Context) ([]shownApproval, error) {
	text, err := s.get(ctx, fmt.Sprintf("/api/v1/approvals?status=pending&limit=%d", decidedAtOnce))
	if err != nil {
		return nil, err
	}
	var page struct {
		Items []shownApproval `json:"items"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	if len(page.Items) != decidedAtOnce || !strings.HasPrefix(page.Items[0].Arguments.Text, "conversation ") {
		return nil, errors.New("read approvals: they are not those of the conversations")
	}
	return page.Items, nil
}

// approveAtOnce returns when each decision was sent.
func (s *stage) approveAtOnce(ctx context.Context, shown []shownApproval) ([]time.Time, error) {
	sent := make([]time.Time, len(shown))
	var group errgroup.Group
	for i, a := range shown {
		group.Go(func() error {
			sent[i] = time.Now()
			_, err := s.post(ctx, "/api/v1/approvals/"+a.ID+"/approve", map[string]string{"digest": a.Digest})
			return err
		})
	}
	return sent, group.Wait()
}
