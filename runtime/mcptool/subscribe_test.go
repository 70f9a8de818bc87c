package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// updates counts the calls of Config.ResourceUpdated.
type updates struct {
	mu     sync.Mutex
	counts map[string]int
}

func (u *updates) updated(skillID, principal uuid.UUID, uri string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts == nil {
		u.counts = map[string]int{}
	}
	u.counts[fmt.Sprint(skillID, principal, uri)]++
}

func (u *updates) countFor(server tool.Server, uri string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[fmt.Sprint(server.SkillID, server.Principal, uri)]
}

func subscribe(t testing.TB, s *mcptool.Source, server tool.Server, uri string) {
	t.Helper()
	if err := s.Subscribe(t.Context(), server, uri); err != nil {
		t.Fatal(err)
	}
}

// TestUpdatesArePassedOn covers both eras.
func TestUpdatesArePassedOn(t *testing.T) {
	t.Parallel()
	for name, options := range listEras() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, &mcp.ServerOptions{
				SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
				UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			})
			for _, uri := range []string{"x:1", "x:2"} {
				server.AddResource(&mcp.Resource{URI: uri, Name: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					return &mcp.ReadResourceResult{}, nil
				})
			}
			var told updates
			s := newSource(t, mcptool.Config{ResourceUpdated: told.updated})
			skill := httpSkill(serve(t, server, options).URL)
			heard := func(uri string) func() bool {
				return func() bool { // the stream may not be open yet, or may be replaced soon
					before := told.countFor(skill, uri)
					check(t, server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}))
					return told.countFor(skill, uri) > before
				}
			}
			subscribe(t, s, skill, "x:1")
			eventually.Holds(t, "x:1", heard("x:1"))
			subscribe(t, s, skill, "x:2")
			eventually.Holds(t, "x:2", heard("x:2"))
			eventually.Holds(t, "x:1 still", heard("x:1"))
			s.Unsubscribe(t.Context(), skill, "x:1")
			count := told.countFor(skill, "x:1")
			check(t, server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "x:1"}))
			eventually.Holds(t, "x:2 still", heard("x:2")) // subscribed to later
			if got := told.countFor(skill, "x:1"); got != count {
				t.Errorf("%d updates after unsubscribing", got-count)
			}
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newSubscriptionServer returns a server with sessions and subscriptions. It streams the messages from say.
func newSubscriptionServer(say <-chan string) *script {
	s := &script{session: "s1"}
	s.at = map[string]act{
		"initialize": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.countRequests("initialize")))
			writeAnswer(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"script","version":"1"}}`)
		},
		"resources/subscribe":   func(w http.ResponseWriter, _ *http.Request, m message) { writeAnswer(w, m, `{}`) },
		"resources/unsubscribe": func(w http.ResponseWriter, _ *http.Request, m message) { writeAnswer(w, m, `{}`) },
		"GET": func(w http.ResponseWriter, r *http.Request, _ message) {
			write := startEvents(w)
			write(": open\n\n")
			for {
				select {
				case params := <-say:
					write(`data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":` + params + "}\n\n")
				case <-r.Context().Done():
					return
				}
			}
		},
	}
	return s
}

func TestOneSubscriptionForAll(t *testing.T) {
	t.Parallel()
	say := make(chan string)
	upstream := newSubscriptionServer(say)
	var told updates
	s := newSource(t, mcptool.Config{ResourceUpdated: told.updated})
	skill := httpSkill(upstream.serve(t).URL)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := s.Subscribe(t.Context(), skill, "x:1"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := upstream.countRequests("resources/subscribe"); n != 1 {
		t.Errorf("asked %d times", n)
	}
	// Updates without a subscription, and invalid ones, are ignored.
	for _, params := range []string{`{"uri":"x:2"}`, `{"uri":1}`, `[]`, `{}`, `{"uri":"x:1"}`} {
		say <- params
	}
	eventually.Holds(t, "told", func() bool { return told.countFor(skill, "x:1") == 1 })
	if n := told.countFor(skill, "x:2"); n != 0 {
		t.Errorf("%d updates without a subscription", n)
	}
	s.Unsubscribe(t.Context(), skill, "x:1")
	s.Unsubscribe(t.Context(), skill, "x:1")
	if n := upstream.countRequests("resources/unsubscribe"); n != 1 {
		t.Errorf("unsubscribed %d times", n)
	}
	if at := string(upstream.lastRequest("resources/unsubscribe").Params); at != `{"uri":"x:1"}` {
		t.Error(at)
	}
}

// A new session renews the subscriptions of the lost one.
func TestSubscribesAgainInAnotherSession(t *testing.T) {
	t.Parallel()
	upstream := newSubscriptionServer(nil)
	restart := make(chan struct{})
	upstream.at["GET"] = func(w http.ResponseWriter, r *http.Request, _ message) {
		if r.Header.Get("Mcp-Session-Id") == "s1" && upstream.countRequests("GET") > 1 {
			answerStatus(http.StatusNotFound, "", "")(w, r, message{})
			return
		}
		startEvents(w)(": open\n\n")
		select {
		case <-restart:
		case <-r.Context().Done():
		}
	}
	var told updates
	s := newSource(t, mcptool.Config{ResourceUpdated: told.updated})
	skill := httpSkill(upstream.serve(t).URL)
	subscribe(t, s, skill, "x:1")
	if n := told.countFor(skill, "x:1"); n != 0 {
		t.Errorf("%d updates without a change", n)
	}
	close(restart)
	eventually.Holds(t, "another session is subscribed", func() bool {
		subscribe(t, s, skill, "x:1")
		return upstream.countRequests("initialize") == 2 && upstream.countRequests("resources/subscribe") == 2
	})
	if n := told.countFor(skill, "x:1"); n != 1 { // a change during the gap may have been missed
		t.Errorf("%d updates", n)
	}
}

func TestSubscribeRefused(t *testing.T) {
	t.Parallel()
	upstream := newSubscriptionServer(nil)
	upstream.at["resources/subscribe"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such thing"}}`, m.ID)
	}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	for range 2 {
		f := asFailure(t, s.Subscribe(t.Context(), skill, "x:1"))
		if f.Kind != tool.JSONRPCError || string(f.RPC) != `{"code":-32002,"message":"no such thing"}` {
			t.Errorf("%s %s", f.Kind, f.RPC)
		}
	}
	if n := upstream.countRequests("resources/subscribe"); n != 2 {
		t.Errorf("%d subscriptions: a refused one must not count", n)
	}
	other := &script{session: "s1"} // without subscriptions
	f := asFailure(t, s.Subscribe(t.Context(), httpSkill(other.serve(t).URL), "x:1"))
	var rpc struct{ Code int }
	if err := json.Unmarshal(f.RPC, &rpc); err != nil || rpc.Code != -32601 || other.countRequests("resources/subscribe") != 0 {
		t.Errorf("%s %v", f.RPC, err)
	}
}

// TestOtherListsChanged covers both eras.
func TestOtherListsChanged(t *testing.T) {
	t.Parallel()
	for name, options := range listEras() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told updates
			s := newSource(t, mcptool.Config{OffersChanged: func(skillID uuid.UUID, method string) { told.updated(skillID, uuid.Nil, method) }})
			server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
			n := 0
			add := func() {
				n++
				server.AddResource(&mcp.Resource{URI: fmt.Sprint("x:", n), Name: "x"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					return &mcp.ReadResourceResult{}, nil
				})
				server.AddPrompt(&mcp.Prompt{Name: fmt.Sprint("p", n)}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
					return &mcp.GetPromptResult{}, nil
				})
			}
			add()
			skill := httpSkill(serve(t, server, options).URL)
			_, err := s.Capabilities(t.Context(), skill)
			check(t, err)
			eventually.Holds(t, "both lists", func() bool { // the stream may not be open yet
				add()
				return told.countFor(skill, "resources/list") > 0 && told.countFor(skill, "prompts/list") > 0
			})
		})
	}
}
