package mcpserver_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

const (
	keepalive = ": keepalive\n\n"
	changed   = "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n"
)

// stream is an open response that is read continuously.
type stream struct {
	t      testing.TB
	body   io.ReadCloser
	blocks chan string // the text between blank lines
}

func (b *bench) openStream(r *http.Request) *stream {
	b.t.Helper()
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" ||
		response.Header.Get("X-Accel-Buffering") != "no" || response.Header.Get("Cache-Control") != "no-cache" {
		b.t.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	s := &stream{b.t, response.Body, make(chan string, 500)}
	go func() {
		defer close(s.blocks)
		var block strings.Builder
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			block.WriteString(lines.Text() + "\n")
			if lines.Text() == "" {
				s.blocks <- block.String()
				block.Reset()
			}
		}
	}()
	return s
}

// nextEvent returns the next event other than a keepalive; "": the stream has ended.
func (s *stream) nextEvent() string {
	s.t.Helper()
	patience := time.After(10 * time.Minute)
	for {
		select {
		case block := <-s.blocks:
			if !strings.HasPrefix(block, ":") && !strings.HasPrefix(block, "id:") {
				return block
			}
		case <-patience:
			s.t.Fatal("nothing came, and the stream did not end")
		}
	}
}

// wantQuiet checks that for the duration d the stream has only keepalives.
func (s *stream) wantQuiet(d time.Duration) {
	s.t.Helper()
	<-time.After(d)
	synctest.Wait()
	for {
		select {
		case block, open := <-s.blocks:
			if !open {
				s.t.Fatal("the stream has ended")
			}
			if !strings.HasPrefix(block, ":") && !strings.HasPrefix(block, "id:") {
				s.t.Errorf("came: %s", block)
			}
		default:
			return
		}
	}
}

func (b *bench) newGetRequest(headers ...string) *http.Request {
	r := b.newRequest(context.Background(), "", headers...)
	r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0
	r.Header.Del("Content-Type")
	return r
}

func (b *bench) deleteSession(session []string) {
	b.t.Helper()
	r := b.newRequest(context.Background(), "", session...)
	r.Method = http.MethodDelete
	if a := b.sendRequest(r); a.status != http.StatusNoContent {
		b.t.Fatalf("end session: %d %s", a.status, a.body)
	}
}

// changeTools changes the agent's tools as an operator does, with a notice.
func (b *bench) changeTools(tools ...string) {
	b.agents.relist(newCatalog(b.t, tools...))
	b.server.CatalogMayHaveChanged()
}

// The official client is notified of a change, in every era.
func TestOfficialClientHears(t *testing.T) {
	broken := catalog.Problem{Skill: "ledger", Kind: "transport", Error: "no route"}
	for name, c := range map[string]struct {
		change func(*bench)
		within time.Duration
	}{
		"of an operator's change": {func(b *bench) { b.changeTools(echoTool) }, time.Second},
		// There is no notice of this change.
		"of a skill that recovers": {func(b *bench) { b.agents.relist(newCatalog(b.t, echoTool)) }, 6 * time.Second},
	} {
		for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(name+" "+version, func(t *testing.T) {
				withFakeTime(t, func(t *testing.T) {
					b := newBench(t)
					b.agents.problems = []catalog.Problem{broken}
					heard := make(chan struct{}, 100)
					session := b.connect(t.Context(), version, &mcp.ClientOptions{
						ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- struct{}{} },
					})
					list := func() (names []string) {
						for tool, err := range session.Tools(t.Context(), nil) {
							if err != nil {
								t.Fatal(err)
							}
							names = append(names, tool.Name)
						}
						return names
					}
					if got := list(); len(got) != 5 || len(heard) != 0 {
						t.Fatalf("before: %q, heard %d", got, len(heard))
					}
					<-time.After(20 * time.Second)
					began := time.Now()
					c.change(b)
					select {
					case <-heard:
					case <-time.After(time.Minute):
					}
					if took := time.Since(began); took > c.within {
						t.Errorf("took %s", took)
					}
					if diff := cmp.Diff([]string{"files__echo", "holdpoint_await"}, list()); diff != "" {
						t.Error(diff)
					}
					<-time.After(2 * time.Minute)
					if len(heard) != 0 {
						t.Errorf("heard %d times more", len(heard))
					}
				})
			})
		}
	}
}

// A client whose streams are closed repeatedly keeps its session, and is notified of a change.
func TestOfficialClientListensAgain(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		heard := make(chan struct{}, 100)
		session := b.connect(t.Context(), "2025-11-25", &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- struct{}{} },
		})
		for range 10 {
			b.closeStreams(session.ID())
			<-time.After(time.Minute)
		}
		b.changeTools(echoTool)
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Error("heard nothing")
		}
		if result, err := session.ListTools(t.Context(), nil); err != nil || len(result.Tools) != 2 {
			t.Errorf("%v %v", result, err)
		}
	})
}

// closeStreams replaces the stream of a session with another one, which it closes at once.
func (b *bench) closeStreams(session string) {
	b.t.Helper()
	s := b.openStream(b.newGetRequest("Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"))
	for block := range s.blocks {
		if strings.HasPrefix(block, "id:") {
			break
		}
	}
	s.body.Close()
	synctest.Wait()
}

func TestStreamOfSession(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		opened := b.openStream(b.newGetRequest(append(session, "Accept", "text/event-stream")...))
		<-time.After(25 * time.Second)
		b.changeTools(echoTool)
		<-time.After(10 * time.Second)
		b.deleteSession(session)
		began := time.Now()
		var text strings.Builder
		for range 6 {
			text.WriteString(<-opened.blocks)
		}
		if got := opened.nextEvent(); got != "" || time.Since(began) != 0 {
			t.Errorf("%s after the session ended: %q", time.Since(began), got)
		}
		got := regexp.MustCompile(`id: [0-9a-f-]{36}\n`).ReplaceAllString(text.String(), "id: ID\n")
		if diff := cmp.Diff(keepalive+"id: ID\ndata:\n\n"+keepalive+keepalive+changed+keepalive, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Clients of earlier revisions do not know events without content.
func TestStreamOfEarlierRevision(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		a := b.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
		session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-06-18"}
		opened := b.openStream(b.newGetRequest(session...))
		b.changeTools(echoTool)
		for _, want := range []string{keepalive, changed} {
			if got := <-opened.blocks; got != want {
				t.Errorf("got %q", got)
			}
		}
	})
}

func TestStreamRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session, ended := b.startSession(), b.startSession()
	b.deleteSession(ended)
	with := func(headers ...string) []string { return append(session[:2:2], headers...) }
	for name, c := range map[string]struct {
		path    string
		headers []string
		status  int
	}{
		"2026-07-28":               {"", with("Mcp-Protocol-Version", "2026-07-28"), 405},
		"neither session nor more": {"", nil, 405},
		"no session":               {"", []string{"Mcp-Protocol-Version", "2025-06-18"}, 400},
		"unsupported version":      {"", with("Mcp-Protocol-Version", "1900-01-01"), 400},
		"for JSON":                 {"", append(with("Accept", "application/json"), session[2:]...), 406},
		"for anything":             {"", with("Accept", "*/*"), 406},
		"unknown":                  {"", []string{"Mcp-Session-Id", uuid.NewString()}, 404},
		"malformed":                {"", []string{"Mcp-Session-Id", "x", "Mcp-Protocol-Version", "2025-11-25"}, 404},
		"ended":                    {"", ended, 404},
		"another principal's":      {"", with("Authorization", "Bearer token-ann"), 404},
		"another agent's":          {"/agents/other/mcp", with("Authorization", "Bearer key-other"), 404},
		"key of another agent":     {"", with("Authorization", "Bearer key-other"), 401},
		"no key":                   {"", with("Authorization", ""), 401},
		"foreign page":             {"", with("Origin", "https://evil.example"), 403},
	} {
		r := b.newGetRequest(c.headers...)
		if c.path != "" {
			r.URL.Path = c.path
		}
		a := b.sendRequest(r)
		if a.status != c.status || (a.header.Get("Allow") != "") != (c.status == 405) {
			t.Errorf("%s: %d %v %s", name, a.status, a.header, a.body)
		}
	}
	r := b.newGetRequest(session...)
	r.Method = http.MethodHead
	if a := b.sendRequest(r); a.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d", a.status)
	}
	b.agents.setRead(func() error { return errors.New("no database at 10.0.0.7") })
	if a := b.sendRequest(b.newGetRequest(session...)); a.status != http.StatusInternalServerError || strings.Contains(a.body, "10.0.0.7") {
		t.Errorf("no database: %d %s", a.status, a.body)
	}
}

// A change while no stream was open is announced on the next stream, unless the client has listed its tools since.
func TestMissedChange(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		b.openStream(b.newGetRequest(session...)).wantQuiet(time.Minute) // it has no list, and there is no change
		b.closeStreams(session[1])
		b.changeTools(echoTool)
		if got := b.openStream(b.newGetRequest(session...)).nextEvent(); got != changed {
			t.Errorf("missed change: %q", got)
		}
		// The client may not have received the notification.
		if got := b.openStream(b.newGetRequest(session...)).nextEvent(); got != changed {
			t.Errorf("again: %q", got)
		}
		b.post(listBody, session...)
		listening := b.openStream(b.newGetRequest(session...))
		listening.wantQuiet(time.Minute)
		b.changeTools(echoTool, gateTool)
		if got := listening.nextEvent(); got != changed {
			t.Errorf("change: %q", got)
		}
		b.changeTools(echoTool) // back to the list that it has
		if got := listening.nextEvent(); got != changed {
			t.Errorf("change back: %q", got)
		}
		listening.wantQuiet(time.Minute)

		// Another process does not know which list the client has.
		other := newBench(t, func(cfg *mcpserver.Config) { cfg.Agents, cfg.Catalog = b.agents, b.agents })
		if got := other.openStream(other.newGetRequest(session...)).nextEvent(); got != changed {
			t.Errorf("elsewhere: %q", got)
		}
	})
}

// A client that has listed the change before the notification gets no notification.
func TestListedChange(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		listening := b.openStream(b.newGetRequest(session...))
		listening.wantQuiet(time.Second)
		b.agents.relist(newCatalog(t, echoTool))
		b.post(listBody, session...)
		b.server.CatalogMayHaveChanged()
		listening.wantQuiet(time.Minute)
	})
}

// A stream ends when its credential is revoked or its session ended elsewhere, but not when the check fails.
func TestStreamEnds(t *testing.T) {
	for name, end := range map[string]func(b *bench, id uuid.UUID){
		"key revoked": func(b *bench, _ uuid.UUID) { b.agents.revoke("key-billing") },
		"ended elsewhere": func(b *bench, id uuid.UUID) {
			if err := b.agents.EndConversation(b.t.Context(), b.agents.agents["billing"].ID, uuid.Nil, id); err != nil {
				b.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				session := b.startSession()
				listening, others := b.openStream(b.newGetRequest(session...)), b.openStream(b.newGetRequest(b.startSession()...))
				for range 100 { // whose checks fail
					b.openStream(b.newGetRequest(b.startSession()...))
				}
				b.agents.fail(errors.New("no database"))
				listening.wantQuiet(10 * time.Minute)
				b.agents.fail(nil)
				end(b, uuid.MustParse(session[1]))
				began := time.Now()
				if got := listening.nextEvent(); got != "" || time.Since(began) > 36*time.Second {
					t.Errorf("%q after %s", got, time.Since(began))
				}
				if name == "ended elsewhere" {
					others.wantQuiet(time.Minute)
				}
			})
		})
	}
}
