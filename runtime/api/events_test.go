package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A follower that reconnects gets the entries since its last one, in any process.
func TestFollowFromAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"hello"}`)
	w.followUntil(server, path, "idle")
	w.post(path+"/messages", w.key, `{"message":"write"}`).wantStatus(t, 202)
	w.followUntil(server, path, "waiting")
	one, two := w.followEvents(server, path+"/events", w.key, ""), w.followEvents(server, path+"/events", w.reviewer, "")
	w.approveOnly()
	events := one.readUntil(isState("idle"))
	for i, e := range events { // a state is that of the entries before it
		before := entryNames(events[:i])
		if e.name == "state" && e.decodeData(t)["last_seq"] != float64(len(before)) {
			t.Errorf("after %d entries: %s", len(before), e)
		}
	}
	whole := entryNames(events)
	if second := entryNames(two.readUntil(isState("idle"))); !slices.Equal(whole, second) {
		t.Errorf("two followers got\n%s\n%s", whole, second)
	}
	messages := listItems(t, w.get(path+"/messages", w.key).wantStatus(t, 200))
	if len(messages) != len(whole) || len(whole) != 9 {
		t.Fatalf("%d entries, %d events", len(messages), len(whole))
	}
	for seq := range len(whole) + 1 {
		for name, f := range map[string]*follower{
			"Last-Event-ID": w.followEvents(server, path+"/events?after=1", w.key, strconv.Itoa(seq)),
			"after":         w.followEvents(server, fmt.Sprintf("%s/events?after=%d", path, seq), w.key, ""),
		} {
			if got := entryNames(f.readUntil(isState("idle"))); !slices.Equal(got, whole[seq:]) {
				t.Errorf("%s %d: %s, want %s", name, seq, got, whole[seq:])
			}
			f.leave()
		}
	}
	for i, text := range whole {
		kind := messages[i].(map[string]any)["kind"]
		if !strings.HasPrefix(text, fmt.Sprintf("%d %s {\"seq\":%d,", i+1, kind, i+1)) {
			t.Errorf("event %d: %s", i, text)
		}
	}
}

// A follower that starts in the middle of a reply gets the reply from its beginning.
func TestFollowReply(t *testing.T) {
	t.Parallel()
	play := newStage()
	w := newWorldWith(t, play)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"hello"}`)
	<-play.asked
	first := w.followEvents(server, path+"/events", w.key, "")
	said := func(f *follower) map[string]any {
		t.Helper()
		all := f.readUntil(isNamed("delta"))
		return all[len(all)-1].decodeData(t)
	}
	play.addText("Grüß ")
	if got := said(first); got["text"] != "Grüß " || got["offset"] != 0.0 {
		t.Errorf("delta %v", got)
	}
	second := w.followEvents(server, path+"/events", w.key, "1")
	if got := said(second); got["text"] != "Grüß " || got["offset"] != 0.0 {
		t.Errorf("delta %v", got)
	}
	play.addText("Gott\n")
	for _, f := range []*follower{first, second} {
		if got := said(f); got["text"] != "Gott\n" || got["offset"] != float64(len("Grüß ")) {
			t.Errorf("delta %v", got)
		}
	}
	play.completeReply("Grüß Gott\n")
	for _, f := range []*follower{first, second} {
		got := f.readUntil(isState("idle"))
		if got[0].name != "assistant" || got[0].id != "2" {
			t.Errorf("events %v", got)
		}
	}
}

func TestFollowReplyThatIsVoid(t *testing.T) {
	t.Parallel()
	play := restarting{newStage()}
	w := newWorldWith(t, play)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"hello"}`)
	<-play.asked
	f := w.followEvents(server, path+"/events", w.key, "")
	play.addText("The first")
	f.readUntil(isNamed("delta"))
	play.restartReply("Another")
	events := f.readUntil(isNamed("delta"))
	if got := events[len(events)-1].decodeData(t); events[0].name != "restart" || got["text"] != "Another" || got["offset"] != 0.0 {
		t.Errorf("events %v", events)
	}
	play.completeReply("Another one")
	if events := f.readUntil(isState("idle")); events[0].name != "assistant" {
		t.Errorf("events %v", events)
	}
}

func TestFollowEndsWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"hello"}`)
	f := w.followEvents(server, path+"/events", w.key, "")
	all := f.readUntil(isState("idle"))
	w.api.Drain()
	if e, more := f.nextEvent(); more || f.lines.Err() != nil {
		t.Errorf("event %v after %v, error %v", e, all, f.lines.Err())
	}
	after := w.followEvents(server, path+"/events", w.key, f.id)
	if e, more := after.nextEvent(); more || after.lines.Err() != nil {
		t.Errorf("event %v, error %v", e, after.lines.Err())
	}
}

// A process stops in the middle of a reply. Another process continues it, and followers reconnect.
func TestFollowOverARestart(t *testing.T) {
	t.Parallel()
	play := newStage()
	w := newWorldWith(t, play)
	w.setModel("billing")
	path := w.startConversation(w.key, `{"message":"hello"}`)
	<-play.asked
	f := w.followEvents(w.startServer(w.process), path+"/events", w.key, "")
	play.addText("Half")
	all := f.readUntil(isNamed("delta"))
	w.stop(w)
	for e, more := f.nextEvent(); more; e, more = f.nextEvent() {
		all = append(all, e)
	}
	w.process = w.start(play)
	<-play.asked
	f = w.followEvents(w.startServer(w.process), path+"/events", w.key, f.id)
	play.addText("Whole")
	events := f.readUntil(isNamed("delta"))
	if got := events[len(events)-1].decodeData(t); got["offset"] != 0.0 || got["text"] != "Whole" {
		t.Errorf("delta %v", got)
	}
	play.completeReply("Whole answer")
	all = append(append(all, events...), f.readUntil(isState("idle"))...)
	told := entryNames(all)
	if len(told) != 2 || !strings.HasPrefix(told[0], "1 user ") || !strings.HasPrefix(told[1], "2 assistant ") || !strings.Contains(told[1], "Whole answer") {
		t.Errorf("got %v", told)
	}
}

// After the credential is revoked, the stream sends nothing.
func TestFollowWithARevokedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	server := w.startServer(w.process)
	path := w.startConversation(w.key, `{"message":"hello"}`)
	created := w.post("agents/billing/keys", w.operator, "").wantStatus(t, 201)
	f := w.followEvents(server, path+"/events", created["key"].(string), "")
	f.readUntil(isState("idle"))
	w.send("DELETE", "/api/v1/agents/billing/keys/"+created["id"].(string), w.operator, "").wantStatus(t, 204)
	w.post(path+"/messages", w.key, `{"message":"secret"}`).wantStatus(t, 202)
	if e, more := f.nextEvent(); more {
		t.Errorf("got %v", e)
	}
}

// A follower that does not read is disconnected.
func TestFollowWithoutReading(t *testing.T) {
	t.Parallel()
	play := newStage()
	w := newWorldWith(t, play)
	w.setModel("billing")
	path := w.startConversation(w.key, `{"message":"hello"}`)
	<-play.asked
	play.completeReply(strings.Repeat("x", 4<<20)) // more than the sockets hold
	w.followUntil(w.startServer(w.process), path, "idle")

	stalled := w.start(play)
	stalled.clock = func() time.Time { return time.Now().Add(-29 * time.Second) } // writes time out after a second
	released := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer close(released)
		stalled.handler.ServeHTTP(rw, r)
	}))
	const held = 64 << 10 // in bytes by each socket; without a limit, their buffers grow
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if err := c.(*net.TCPConn).SetWriteBuffer(held); err != nil {
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check(t, conn.(*net.TCPConn).SetReadBuffer(held))
	_, err = fmt.Fprintf(conn, "GET /api/v1/%s/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", path, w.key)
	check(t, err)
	select {
	case <-released:
	case <-time.After(patience):
		t.Fatal("it is still held")
	}
}

func TestFollowHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setModel("billing")
	path := w.startConversation(w.key, `{}`)
	f := w.followEvents(w.startServer(w.process), path+"/events", w.key, "")
	f.readUntil(isState("idle"))
	h := f.response.Header
	if h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Length") != "" {
		t.Errorf("headers %v", h)
	}
	w.get("conversations/"+uuid.NewString()+"/events", w.key).wantProblem(t, 404, "not_found")
}
