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

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// measureTalks measures conversations that wait for a reviewer: their cost, and how soon they continue after many decisions at the
// same moment.
func measureTalks(ctx context.Context, s *stage) error {
	mind, err := s.serveModel(ctx)
	if err != nil {
		return err
	}
	idle, err := s.waitForSteadyMemory(ctx)
	if err != nil {
		return err
	}
	connected, err := s.countConnections(ctx)
	if err != nil {
		return err
	}
	n := choose(s.bench, 5000, 300)
	began := time.Now()
	if err := s.startConversations(ctx, n); err != nil {
		return err
	}
	s.logf("  %d conversations wait after %.1f s", n, time.Since(began).Seconds())
	waiting, err := s.waitForSteadyMemory(ctx)
	if err != nil {
		return err
	}
	now, err := s.countConnections(ctx)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("%d conversations parked: ", n)
	s.report.addFigure("talks", at+"goroutines each", "per conversation", max(waiting.goroutines-idle.goroutines, 0)/float64(n)).aimAtMost(0.01)
	s.report.addFigure("talks", at+"connections to the database each", "per conversation", float64(max(now-connected, 0))/float64(n)).aimAtMost(0.01)
	s.report.addFigure("talks", at+"memory of serve", "KiB/conversation", float64(waiting.rss-idle.rss)/1024/float64(n))
	return s.measureResume(ctx, mind, n)
}

// conversationModel is the language model of the conversations. It records when it gets the results of tools.
type conversationModel struct {
	mu    sync.Mutex
	asked map[string]time.Time // with a result, by message
}

// serveModel serves the language model and assigns it to the agent.
func (s *stage) serveModel(ctx context.Context) (*conversationModel, error) {
	m := &conversationModel{asked: map[string]time.Time{}}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve model: %w", err)
	}
	serving := &http.Server{Handler: modelserver.New(m.answerRequest), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = serving.Close() })
	go func() { _ = serving.Serve(listener) }()
	_, err = s.api.UpdateAgent(ctx, agentName, client.AgentPatch{
		Model: &client.ModelSpec{Provider: "openai", Name: "bench", BaseURL: new("http://" + listener.Addr().String() + "/v1")},
	})
	return m, err
}

func (m *conversationModel) answerRequest(r *modelserver.Request) modelserver.Answer {
	if len(r.Last().Results) > 0 {
		m.mu.Lock()
		m.asked[r.Messages[0].Text] = time.Now()
		m.mu.Unlock()
		return modelserver.Answer{Text: "Done."}
	}
	arguments, err := json.Marshal(echoInput{Text: r.Last().Text})
	if err != nil {
		return modelserver.Answer{Text: err.Error()}
	}
	return modelserver.Answer{Text: "I need to.", Calls: []modelserver.Call{{Name: "gated__echo", Arguments: string(arguments)}}}
}

// startConversations starts n conversations and waits until each waits for a reviewer.
func (s *stage) startConversations(ctx context.Context, n int) error {
	agent, err := s.newAPI(s.key)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			_, err := agent.CreateConversation(ctx, client.CreateConversationRequest{Message: new(fmt.Sprintf("conversation %d", i))})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.serve.waitFor(ctx, 5*time.Minute, func(ctx context.Context) bool {
		var waiting int
		err := s.pool.QueryRow(ctx, `SELECT count(*) FROM loops WHERE status = 'waiting'`).Scan(&waiting)
		return err == nil && waiting == n
	})
}

func (s *stage) countConnections(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`).Scan(&n)
	return n, err
}

const decidedAtOnce = 50

// measureResume repeatedly approves calls of many conversations at the same moment, and measures how soon the model gets the results.
func (s *stage) measureResume(ctx context.Context, m *conversationModel, n int) error {
	var took []time.Duration
	for range min(choose(s.bench, 20, 3), n/decidedAtOnce) {
		shown, err := s.nextApprovals(ctx)
		if err != nil {
			return err
		}
		decided, err := s.approveAtOnce(ctx, shown)
		if err != nil {
			return err
		}
		err = s.serve.waitFor(ctx, time.Minute, func(context.Context) bool {
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
	_, most := s.report.addTimes("talks", fmt.Sprintf("%d conversations parked, %d decided at once: approve request to the model being asked, ", n, decidedAtOnce), took)
	most.aimAtMost(1000)
	return nil
}

// shownApproval holds the used members of an approval.
type shownApproval struct {
	ID        string    `json:"id"`
	Digest    string    `json:"digest"`
	Arguments echoInput `json:"arguments"`
}

func (s *stage) nextApprovals(ctx context.Context) ([]shownApproval, error) {
	text, err := s.api.ListApprovals(ctx, client.ListApprovalsQuery{Status: "pending", Limit: new(int64(decidedAtOnce))})
	page, err := client.Value(client.Reply[client.List[shownApproval]](text), err)
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	if len(page.Items) != decidedAtOnce || !strings.HasPrefix(page.Items[0].Arguments.Text, "conversation ") {
		return nil, errors.New("read approvals: they do not belong to the conversations")
	}
	return page.Items, nil
}

// approveAtOnce approves all, and returns when each decision was sent.
func (s *stage) approveAtOnce(ctx context.Context, shown []shownApproval) ([]time.Time, error) {
	sent := make([]time.Time, len(shown))
	var group errgroup.Group
	for i, a := range shown {
		group.Go(func() error {
			sent[i] = time.Now()
			_, err := s.api.Approve(ctx, a.ID, client.ApproveRequest{Digest: a.Digest})
			return err
		})
	}
	return sent, group.Wait()
}
