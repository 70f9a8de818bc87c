package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// stubborn is an agent that retries at any server until it knows how its call ended, with the same call or
// holdpoint_await.
type stubborn struct {
	agent holdpoint.Agent
	// meta is the call's _meta as JSON; "" for none.
	meta string

	mu      sync.Mutex
	servers []*holdpoint.Process
	callID  string // once it is known
}

func newStubborn(agent holdpoint.Agent, servers ...*holdpoint.Process) *stubborn {
	return &stubborn{agent: agent, servers: servers, meta: "{}"}
}

// addServer adds a newly started server.
func (s *stubborn) addServer(p *holdpoint.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, p)
}

// nextServer returns the running servers in turn.
func (s *stubborn) nextServer(attempt int) (*holdpoint.Process, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.servers {
		if p := s.servers[(attempt+i)%len(s.servers)]; !p.Ended() {
			return p, true
		}
	}
	return nil, false
}

var errNobodyAnswers = errors.New("no server runs")

// callTool makes the call and returns its end.
func (s *stubborn) callTool(ctx context.Context, tool, arguments string) (holdpoint.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	last := errNobodyAnswers
	for attempt := 0; ; attempt++ {
		if p, ok := s.nextServer(attempt); ok {
			answer, err := s.tryCall(ctx, p, attempt, tool, arguments)
			if err == nil && !answer.Pending() {
				return answer, nil
			}
			last = err
			if err == nil {
				last = fmt.Errorf("still pending: %s", answer.Text())
				s.learnID(answer.Call().ID)
			}
		}
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return holdpoint.Answer{}, fmt.Errorf("call %s %s: gave up: %w", tool, arguments, last)
		}
	}
}

// tryCall repeats the call, or awaits it every other time once its id is known.
func (s *stubborn) tryCall(ctx context.Context, p *holdpoint.Process, attempt int, tool, arguments string) (holdpoint.Answer, error) {
	agent := s.agent
	agent.URL = p.URL
	if id := s.knownID(); id != "" && attempt%2 == 1 {
		return agent.Await(ctx, id)
	}
	answer, err := agent.CallToolWith(ctx, tool, arguments, s.meta)
	if err == nil && answer.Error != nil && answer.Error.Code == jsonrpc.CodeInternalError { // such as a database that fails
		err = errors.New(answer.Error.Message)
	}
	return answer, err
}

func (s *stubborn) learnID(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callID = id
}

func (s *stubborn) knownID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callID
}

// outcome is the end of a call in the background.
type outcome struct {
	answer holdpoint.Answer
	err    error
}

// beginCall makes the call in the background.
func (s *stubborn) beginCall(ctx context.Context, tool, arguments string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		answer, err := s.callTool(ctx, tool, arguments)
		done <- outcome{answer, err}
	}()
	return done
}
