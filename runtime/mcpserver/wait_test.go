package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// These tests control time: a minute passes at once when all goroutines wait.

func succeedWith(text string) call.Call {
	return call.Call{Status: call.Succeeded, Result: json.RawMessage(`{"content":[{"type":"text","text":"` + text + `"}]}`)}
}

func withFakeTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func TestHeldOpen(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		go func() {
			id := <-b.calls.arrived
			time.AfterFunc(25*time.Second, func() { b.calls.finishCall(id, succeedWith("done")) })
		}()
		body := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"files__gated","arguments":{},"_meta":{"progressToken":"tok"}}}`
		response, err := b.client.Do(b.newRequest(t.Context(), body, session...))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		id := response.Header.Get("Holdpoint-Call")
		progress := func(n string) string {
			return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":` + n +
				`,"message":"waiting for approval until 15:04:05Z"}}`
		}
		want := []string{
			": keepalive", progress("0"), progress("10"), progress("20"),
			`{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"done"}],"_meta":{"dev.holdpoint/call":{"id":"` + id + `","status":"succeeded","code":"succeeded"}}}}`,
		}
		if diff := cmp.Diff(want, readEvents(response.Body)); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		if got := b.calls.deliveries(); len(got) != 1 || got[0].String() != id {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestKeepAliveComments(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		go func() {
			id := <-b.calls.arrived
			time.AfterFunc(45*time.Second, func() { b.calls.finishCall(id, succeedWith("done")) })
		}()
		a := b.post(callBody("1", "gated", "{}"), b.startSession()...)
		if got := strings.Count(a.body, ": keepalive\n\n"); got != 5 {
			t.Errorf("%d comments in %s", got, a.body)
		}
	})
}

// The response to a call without approval is plain JSON if the call is fast, and otherwise a stream.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		takes  time.Duration
		accept string
		want   string
	}{
		"quick":          {499 * time.Millisecond, "", "application/json"},
		"slow":           {501 * time.Millisecond, "", "text/event-stream"},
		"slow, for JSON": {20 * time.Second, "application/json", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				go func() {
					id := <-b.calls.arrived
					time.AfterFunc(c.takes, func() { b.calls.finishCall(id, succeedWith("done")) })
				}()
				headers := b.startSession()
				if c.accept != "" {
					headers = append(headers, "Accept", c.accept)
				}
				a := b.post(callBody("1", "slow", "{}"), headers...)
				if got := a.header.Get("Content-Type"); got != c.want || !strings.Contains(a.body, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`) {
					t.Errorf("%s %s", got, a.body)
				}
				if got := b.calls.deliveries(); len(got) != 0 {
					t.Errorf("delivered %v without a request", got)
				}
			})
		})
	}
}

func TestWaitBudget(t *testing.T) {
	for tool, want := range map[string]struct{ status, text string }{
		"gated": {"parked", "waiting for approval by a person until 2030-01-02T15:04:05Z"},
		"slow":  {"executing", "has not ended yet"},
	} {
		for name, accept := range map[string]string{"stream": "application/json, text/event-stream", "JSON": "application/json"} {
			t.Run(tool+" "+name, func(t *testing.T) {
				withFakeTime(t, func(t *testing.T) {
					b := newBench(t)
					b.agents.agents["billing"].WaitBudget = 7 * time.Second
					began := time.Now()
					a := b.post(callBody("1", tool, "{}"), append(b.startSession(), "Accept", accept)...)
					if took := time.Since(began); took != 7*time.Second {
						t.Errorf("took %s", took)
					}
					_, body, _ := strings.Cut(a.body, `"result":`)
					v := map[string]any{"result": decodeJSON(t, strings.TrimSuffix(strings.TrimSpace(body), "}"))}
					id := (<-b.calls.arrived).String()
					text, _ := memberAt(v, "result", "content", 0, "text").(string)
					if memberAt(v, "result", "isError") != true || !strings.Contains(text, want.text) || !strings.Contains(text, `holdpoint_await with {"call_id": "`+id+`"}`) {
						t.Errorf("%s", body)
					}
					meta := map[string]any{"id": id, "status": want.status, "code": "pending"}
					if tool == "gated" {
						meta["deadline"] = "2030-01-02T15:04:05Z"
					}
					if diff := cmp.Diff(meta, memberAt(v, "result", "_meta", "dev.holdpoint/call")); diff != "" {
						t.Error(diff)
					}
					if got := b.calls.deliveries(); len(got) != 0 {
						t.Errorf("delivered %v", got)
					}
				})
			})
		}
	}
}

// A client that repeats its call, or waits for it again, gets the outcome that it missed.
func TestComesBack(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		first := b.post(callBody("1", "gated", `{"a":1}`), b.startSession()...)
		id := <-b.calls.arrived
		if !strings.Contains(first.body, `"code":"pending"`) {
			t.Fatalf("first: %s", first.body)
		}
		b.calls.finishCall(id, succeedWith("done"))
		await := func(id string) string {
			return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"call_id":"` + id + `"}}}`
		}
		want := `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"done"}],"_meta":{"dev.holdpoint/call":{"id":"` + id.String() + `","status":"succeeded","code":"succeeded","attached":true}}}}`
		if a := b.post(callBody("2", "gated", `{ "a": 1 }`), b.startSession()...); !strings.Contains(a.body, want) || a.header.Get("Holdpoint-Call") != id.String() {
			t.Errorf("repeat: %s", a.body)
		}
		if a := b.post(await(id.String()), b.startSession()...); a.body != want || a.header.Get("Holdpoint-Call") != id.String() {
			t.Errorf("await: %s", a.body)
		}
		synctest.Wait()
		if diff := cmp.Diff([]uuid.UUID{id, id}, b.calls.deliveries()); diff != "" {
			t.Error(diff)
		}
		for name, c := range map[string]struct {
			body    string
			headers []string
			code    string
		}{
			"another agent":     {await(id.String()), []string{"Authorization", "Bearer key-other"}, "call_not_found"},
			"another principal": {await(id.String()), []string{"Authorization", "Bearer token-ann"}, "call_not_found"},
			"unknown":           {await(uuid.NewString()), nil, "call_not_found"},
			"malformed":         {await("x"), nil, "call_not_found"},
			"no id":             {strings.Replace(await("x"), "call_id", "id", 1), nil, "invalid_arguments"},
		} {
			r := b.newRequest(t.Context(), c.body, c.headers...)
			if name == "another agent" {
				r.URL.Path = "/agents/other/mcp"
			}
			v := decodeJSON(t, b.sendRequest(r).body)
			if memberAt(v, "result", "isError") != true || memberAt(v, "result", "_meta", "dev.holdpoint/call", "code") != c.code {
				t.Errorf("%s: %v", name, v)
			}
		}
	})
}

func TestAwaitWaits(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.agents.agents["billing"].WaitBudget = 3 * time.Second
		b.post(callBody("1", "gated", `{}`), b.startSession()...)
		id := <-b.calls.arrived
		time.AfterFunc(2*time.Second, func() {
			b.calls.finishCall(id, call.Call{Status: call.Rejected, Code: call.CodeRejected, Message: "no"})
		})
		a := b.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"call_id":"`+id.String()+`"}}}`, b.startSession()...)
		if a.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(a.body, `"status":"rejected","code":"rejected","attached":true`) {
			t.Errorf("%s", a.body)
		}
	})
}

// holdCall makes a waiting call, and returns when its response has begun.
func (b *bench) holdCall(ctx context.Context, id string, headers []string) (*http.Response, uuid.UUID) {
	b.t.Helper()
	response, err := b.client.Do(b.newRequest(ctx, callBody(id, "gated", `{"n":`+id+`}`), headers...))
	if err != nil {
		b.t.Fatal(err)
	}
	return response, <-b.calls.arrived
}

func TestClientLeaves(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		ctx, leave := context.WithCancel(t.Context())
		response, id := b.holdCall(ctx, "1", b.startSession())
		leave()
		if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("read: %v", err)
		}
		response.Body.Close()
		synctest.Wait()
		b.calls.finishCall(id, succeedWith("done"))
		synctest.Wait()
		if got := b.calls.deliveries(); len(got) != 0 {
			t.Errorf("delivered %v to a client that left", got)
		}
	})
}

func TestCancelledNotification(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		var mu sync.Mutex
		var relayed []string
		b := newBench(t, func(cfg *mcpserver.Config) {
			cfg.Broadcast = func(_ context.Context, conversation uuid.UUID, request string) {
				mu.Lock()
				defer mu.Unlock()
				relayed = append(relayed, conversation.String()+" "+request)
			}
		})
		session, other := b.startSession(), b.startSession()
		cancel := func(id string, headers []string) {
			t.Helper()
			if a := b.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"timeout"}}`, headers...); a.status != http.StatusAccepted {
				t.Errorf("cancel: %d", a.status)
			}
		}
		response, id := b.holdCall(t.Context(), "41", session)
		defer response.Body.Close()
		cancel("41", other)
		cancel(`"41"`, session)
		cancel("41", session)
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != ": keepalive\n\n" {
			t.Errorf("%v %s", err, body)
		}
		b.calls.finishCall(id, succeedWith("done"))
		synctest.Wait()
		if got := b.calls.deliveries(); len(got) != 0 {
			t.Errorf("delivered %v to a client that cancelled", got)
		}
		if diff := cmp.Diff([]string{other[1] + " 41", session[1] + ` "41"`}, relayed); diff != "" {
			t.Error(diff)
		}
		again, id := b.holdCall(t.Context(), "42", session)
		defer again.Body.Close()
		if b.server.Drop(uuid.MustParse(other[1]), "42") || !b.server.Drop(uuid.MustParse(session[1]), "42") {
			t.Error("Drop of a request of another process")
		}
		if _, err := io.ReadAll(again.Body); err != nil {
			t.Error(err)
		}
		b.calls.finishCall(id, succeedWith("done"))
	})
}

// A JSON response without an answer is empty.
func TestCancelledWithoutStream(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		go func() {
			<-b.calls.arrived
			synctest.Wait()
			b.server.Drop(uuid.MustParse(session[1]), "1")
		}()
		if a := b.post(callBody("1", "gated", `{}`), append(session, "Accept", "application/json")...); a.status != http.StatusNoContent || a.body != "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestDrain(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		began := time.Now()
		first, id := b.holdCall(t.Context(), "1", b.startSession())
		defer first.Body.Close()
		b.server.Drain()
		b.server.Drain()
		if got := readEvents(first.Body); len(got) != 2 || !strings.Contains(got[1], `"_meta":{"dev.holdpoint/call":{"id":"`+id.String()+`","status":"parked","code":"pending","deadline":"2030-01-02T15:04:05Z"}}`) {
			t.Errorf("%q", got)
		}
		if a := b.post(callBody("1", "gated", `{}`), b.startSession()...); !strings.Contains(a.body, `"code":"pending"`) {
			t.Errorf("after: %s", a.body)
		}
		if a := b.post(callBody("1", "echo", `{}`), b.startSession()...); !strings.Contains(a.body, `"result":{"content":`) {
			t.Errorf("quick call after: %s", a.body)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}

func TestWaitFails(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.calls.waitErr = errors.New("no database")
		a := b.post(callBody("1", "slow", `{}`), b.startSession()...)
		if !strings.Contains(a.body, `"code":"pending"`) || !strings.Contains(b.log.String(), "no database") || strings.Contains(a.body, "database") {
			t.Errorf("%s\n%s", a.body, b.log.String())
		}
	})
}

// A client that stops reading is dropped after the write timeout.
func TestStuckClient(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		conn, err := b.listener.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := b.newRequest(t.Context(), callBody("1", "gated", `{}`), session...).Write(conn); err != nil {
			t.Fatal(err)
		}
		status := make([]byte, len("HTTP/1.1 200 OK"))
		if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200 OK" {
			t.Fatalf("%q %v", status, err)
		}
		id := <-b.calls.arrived
		b.calls.finishCall(id, succeedWith("done"))
		<-time.After(mcpserver.DefaultWriteTimeout + time.Second)
		if !strings.Contains(b.log.String(), "client left") || len(b.calls.deliveries()) != 0 {
			t.Errorf("delivered %v\n%s", b.calls.deliveries(), b.log.String())
		}
	})
}

// A result with more text than one page is read page by page. The pages together are the text.
func TestLongResultIsReadInPages(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		long := strings.Repeat("line of a long result, ünïcode 😀\n", 20_000)
		raw, err := json.Marshal(map[string]any{
			"content":           []any{map[string]any{"type": "text", "text": long}, map[string]any{"type": "image", "data": "AAAA", "mimeType": "image/png"}},
			"structuredContent": map[string]any{"n": 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.post(callBody("1", "gated", `{"a":1}`), b.startSession()...)
		id := <-b.calls.arrived
		b.calls.finishCall(id, call.Call{Status: call.Succeeded, Result: raw})
		read := func(page string) any {
			t.Helper()
			return decodeJSON(t, b.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"call_id":"`+id.String()+`"`+page+`}}}`, b.startSession()...).body)
		}
		first := read("")
		if memberAt(first, "result", "content", 1, "type") != "image" || memberAt(first, "result", "structuredContent", "n") != 1.0 || memberAt(first, "result", "isError") != nil {
			t.Fatalf("%.300v", first)
		}
		var whole strings.Builder
		for page, v := 1, first; ; page++ {
			text, _ := memberAt(v, "result", "content", 0, "text").(string)
			part, note, noted := strings.Cut(text, "\n\n[Page ")
			if !noted || len(part) > 256<<10 || memberAt(v, "result", "_meta", "dev.holdpoint/call", "id") != id.String() {
				t.Fatalf("page %d: %d bytes, %q", page, len(part), note)
			}
			whole.WriteString(part)
			if !strings.Contains(note, fmt.Sprintf(`{"call_id": "%s", "page": %d}`, id, page+1)) {
				break
			}
			v = read(fmt.Sprintf(`,"page":%d`, page+1))
		}
		if whole.String() != long {
			t.Errorf("the pages come together to %d bytes of %d", whole.Len(), len(long))
		}
		for page, want := range map[string]string{`,"page":99`: "The result has 3 pages.", `,"page":-1`: "/page: must be a number", `,"page":"2"`: "not valid"} {
			v := read(page)
			if text, _ := memberAt(v, "result", "content", 0, "text").(string); memberAt(v, "result", "isError") != true || !strings.Contains(text, want) {
				t.Errorf("%s: %.200v", page, v)
			}
		}
	})
}
