package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestQuestionEndsWithItsCall: a question ends with the call that the server named, even while other calls run.
func TestQuestionEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"call's stream", "own stream", "2026-07-28"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan struct{})
			s := newSource(t, mcptool.Config{})
			caller := acceptQuestions(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
				leave()
				<-ctx.Done()
				close(ended)
				return json.RawMessage(accepted), nil
			})
			upstream, _ := newAsker(formatQuestion("1", `{}`))
			switch where {
			case "own stream":
				called := make(chan struct{})
				upstream.at["tools/call"] = func(w http.ResponseWriter, r *http.Request, m message) {
					close(called)
					waitForClient(w, r, m)
				}
				upstream.at["GET"] = func(w http.ResponseWriter, r *http.Request, m message) {
					write := startEvents(w)
					<-called
					write(formatEvent(formatQuestion("1", `{}`)))
					waitForClient(w, r, m)
				}
			case "2026-07-28":
				upstream = newModernServer(func(w http.ResponseWriter, _ *http.Request, m message) {
					writeAnswer(w, m, inputRequired(`"q":`+formatInputRequest(`{}`), ""))
				})
			}
			skill := httpSkill(upstream.serve(t).URL)
			letGo := func() {}
			if where != "own stream" {
				letGo = holdCall(t, s, skill, upstream)
			}
			f := failCallFor(ctx, t, s, skill, caller)
			if f.Effect != tool.EffectPossible || !errors.Is(f, context.Canceled) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			<-ended
			letGo()
			if n := upstream.countRequests("answer"); n != 0 {
				t.Errorf("%d answers", n)
			}
		})
	}
}

// holdCall keeps a call running until letGo is called.
func holdCall(t testing.TB, s *mcptool.Source, skill tool.Server, upstream *script) (letGo func()) {
	t.Helper()
	usual, arrived := upstream.at["tools/call"], make(chan struct{})
	upstream.at["tools/call"] = func(w http.ResponseWriter, r *http.Request, m message) {
		if !strings.Contains(string(m.Params), `"hold"`) {
			usual(w, r, m)
			return
		}
		close(arrived)
		waitForClient(w, r, m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, skill, tool.CallRequest{Tool: "hold"})
		done <- err
	}()
	<-arrived
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the other call: %v", err)
		}
	}
}

// TestServerTakesItsQuestionBack: a cancelled question is not answered, and the call continues. A question sent twice
// is asked once.
func TestServerTakesItsQuestionBack(t *testing.T) {
	t.Parallel()
	asked, ended, answers := make(chan struct{}, 3), make(chan struct{}), make(chan message, 3)
	upstream := &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
			write := startEvents(w)
			write(formatEvent(formatQuestion(`"a"`, `{}`)) + formatEvent(formatQuestion(`"a"`, `{}`)))
			<-asked
			write(formatEvent(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`))
			write(formatEvent(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"too late"}}`))
			<-ended
			write(formatEvent(formatQuestion(`"b"`, `{}`)))
			if got := <-answers; string(got.ID) != `"b"` {
				t.Errorf("answered %s", got.body)
			}
			write(formatEvent(answerText(m, `{"content":[]}`)))
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusAccepted)
			answers <- m
		},
	}}
	var count atomic.Int64
	s := newSource(t, mcptool.Config{})
	callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, acceptQuestions(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
		if count.Add(1) == 1 {
			asked <- struct{}{}
			<-ctx.Done()
			close(ended)
		}
		return json.RawMessage(accepted), nil
	}))
	if count.Load() != 2 || len(answers) != 0 {
		t.Errorf("asked %d times, %d more answers", count.Load(), len(answers))
	}
}

// TestQuestionsAreBounded: a server may ask a limited number of questions.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	refused := make(chan message, 1)
	upstream := &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
			write := startEvents(w)
			for id := range strings.SplitSeq("1,2,3,4,5,6,7,8,9", ",") {
				write(formatEvent(formatQuestion(id, `{}`)))
			}
			if got := <-refused; string(got.ID) != "9" || !strings.Contains(string(got.Error), "too many questions") {
				t.Errorf("got %s", got.body)
			}
			write(formatEvent(answerText(m, `{"content":[]}`)))
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusAccepted)
			refused <- m
		},
	}}
	s := newSource(t, mcptool.Config{})
	callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, acceptQuestions(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
		open.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	eventually.Holds(t, "all questions but one were asked", func() bool { return open.Load() == 8 })
	if n := upstream.countRequests("answer"); n != 1 {
		t.Errorf("%d answers", n)
	}
}

// TestWhoIsMeant: a question on the server's own stream belongs to the only running call. It is refused if several
// calls run, or if the call has no caller who can answer.
func TestWhoIsMeant(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32 // each question has its own id, to count repeats once
	questions, replies := make(chan string, 1), make(chan message, 1)
	upstream := &script{session: "s1"}
	held := make(chan struct{})
	ask := func(question string) string {
		questions <- question
		got := <-replies
		return string(got.Result) + string(got.Error)
	}
	upstream.at = map[string]act{
		"GET": func(w http.ResponseWriter, r *http.Request, _ message) {
			write := startEvents(w)
			for {
				select {
				case question := <-questions:
					write(formatEvent(question))
				case <-r.Context().Done():
					return
				}
			}
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusAccepted)
			replies <- m
		},
		"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			if strings.Contains(string(m.Params), `"hold"`) {
				close(held)
				waitForClient(w, r, m)
				return
			}
			text, err := json.Marshal(ask(formatQuestion(strconv.Itoa(int(asked.Add(1))), `{}`)) + " " +
				ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, asked.Add(1))))
			if err != nil {
				t.Error(err)
			}
			writeAnswer(w, m, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
		},
	}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	const shared = `{"code":-32600,"message":"several clients share this session: roots are told only on the stream of a call"}`
	if got := textOf(t, callFor(t, s, skill, "echo", `{}`, giveAnswer(accepted))); got != accepted+" "+shared {
		t.Errorf("the only call: %s", got)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, skill, tool.CallRequest{Tool: "hold", Caller: refuseQuestions(t)})
		done <- err
	}()
	<-held
	const several = `{"code":-32600,"message":"several calls are on their way, and it cannot be told which one this is about"}`
	if got := textOf(t, callFor(t, s, skill, "echo", `{}`, refuseQuestions(t))); got != several+" "+shared {
		t.Errorf("one of two calls: %s", got)
	}
	leave()
	<-done
}

// TestNoRefusalIsLost: every question gets its refusal, even if the server asks many callers at once who cannot answer.
func TestNoRefusalIsLost(t *testing.T) {
	t.Parallel()
	const calls = 40
	var mu sync.Mutex
	waiting := map[string]chan message{}
	var arrived sync.WaitGroup
	arrived.Add(calls)
	upstream := &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			write := startEvents(w)
			reply := make(chan message, 1)
			mu.Lock()
			waiting[string(m.ID)] = reply
			mu.Unlock()
			arrived.Done()
			arrived.Wait() // so that all ask at once
			write(formatEvent(formatQuestion(string(m.ID), `{}`)))
			select {
			case got := <-reply:
				if !strings.Contains(string(got.Error), "did not declare elicitation") {
					t.Errorf("answered %s", got.body)
				}
				write(formatEvent(answerText(m, `{"content":[]}`)))
			case <-r.Context().Done():
			}
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusAccepted)
			mu.Lock()
			defer mu.Unlock()
			waiting[string(m.ID)] <- m
		},
	}}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	errs := make(chan error, calls)
	for range calls {
		go func() {
			_, err := s.Call(withTimeout(t, 20*time.Second), skill, tool.CallRequest{Tool: "echo"})
			errs <- err
		}()
	}
	for range calls {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
