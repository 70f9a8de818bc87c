package mcpserver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// Clients without sessions subscribe with a request.
func TestListen(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		event := func(text string) string { return "event: message\ndata: " + text + "\n\n" }
		id := `"_meta":{"io.modelcontextprotocol/subscriptionId":7}`
		ack := func(agreed string) string {
			return event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + id + `,"notifications":` + agreed + `}}`)
		}
		ask := func(wanted string) *stream {
			body, headers := modernRequest("subscriptions/listen", `"notifications":`+wanted)
			return b.openStream(b.newRequest(t.Context(), strings.Replace(body, `"id":"m"`, `"id":7`, 1), headers...))
		}
		first, second := ask(`{"toolsListChanged":true,"resourcesListChanged":false,"other":true}`), ask(` { "toolsListChanged" : true } `)
		for _, s := range []*stream{first, second} {
			if got := s.nextEvent(); got != ack(`{"toolsListChanged":true}`) {
				t.Errorf("ack %q", got)
			}
		}
		first.wantQuiet(time.Minute)
		b.changeTools(echoTool)
		for _, s := range []*stream{first, second} {
			if got := s.nextEvent(); got != event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+id+`}}`) {
				t.Errorf("change %q", got)
			}
		}
		// Unsupported notifications are not acknowledged. A stream without any notifications ends.
		none := ask(`{"toolsListChanged":false,"promptsListChanged":false,"resourceSubscriptions":["x:denied"]}`)
		for _, want := range []string{ack(`{}`), event(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete",` + id + `}}`), ""} {
			if got := none.nextEvent(); got != want {
				t.Errorf("nothing: %q", got)
			}
		}
		second.wantQuiet(time.Minute)
	})
}

// A client that names no conversation uses that of the day.
func TestListenOvernight(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t, func(cfg *mcpserver.Config) {
			cfg.Now = func() time.Time { return time.Now().Add(23*time.Hour + 59*time.Minute) }
		})
		body, headers := modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
		named := strings.Replace(body, `"_meta":{`, `"_meta":{"dev.holdpoint/conversation":"mine",`, 1)
		days, mine := b.openStream(b.newRequest(t.Context(), body, headers...)), b.openStream(b.newRequest(t.Context(), named, headers...))
		days.nextEvent()
		mine.nextEvent()
		for range 100 {
			b.openStream(b.newRequest(t.Context(), named, headers...))
		}
		days.wantQuiet(30 * time.Second)
		b.agents.mu.Lock()
		b.agents.catalog = newCatalog(t, echoTool) // of new conversations
		b.agents.mu.Unlock()
		days.wantQuiet(15 * time.Second)
		midnight := time.Now().Add(15 * time.Second)
		if got := days.nextEvent(); !strings.Contains(got, "list_changed") || time.Since(midnight) > 6*time.Second {
			t.Errorf("%q at %s", got, time.Since(midnight))
		}
		mine.wantQuiet(time.Minute)
		if got := len(b.agents.names()); got != 3 {
			t.Errorf("%d conversations", got)
		}
	})
}

func TestListenRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		params, accept string
		status         int
		want           string
	}{
		{``, "", 400, "/params/notifications: missing"},
		{`"notifications":null`, "", 400, "/params/notifications: must be an object"},
		{`"notifications":[true]`, "", 400, "/params/notifications: must be an object"},
		{`"notifications":{"toolsListChanged":"yes"}`, "", 400, "/params/notifications/toolsListChanged: must be true or false"},
		{`"notifications":{"promptsListChanged":1}`, "", 400, "/params/notifications/promptsListChanged: must be true or false"},
		{`"notifications":{"toolsListChanged":true}`, "application/json", 406, "text/event-stream"},
	} {
		body, headers := modernRequest("subscriptions/listen", c.params)
		if c.accept != "" {
			headers = append(headers, "Accept", c.accept)
		}
		a := b.post(body, headers...)
		if a.status != c.status || !strings.Contains(a.body, c.want) || c.status == 400 && memberAt(decodeJSON(t, a.body), "error", "code") != -32602.0 {
			t.Errorf("%s: %d %s", c.params, a.status, a.body)
		}
	}
	a := b.post(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`, b.startSession()...)
	if memberAt(decodeJSON(t, a.body), "error", "code") != -32601.0 {
		t.Errorf("in a session: %s", a.body)
	}
	b.agents.setRead(func() error { return errors.New("no database") })
	body, headers := modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	if a := b.post(body, headers...); memberAt(decodeJSON(t, a.body), "error", "code") != -32603.0 {
		t.Errorf("no database: %s", a.body)
	}
}

func TestDrainedStreams(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		body, headers := modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
		open := func() {
			t.Helper()
			legacy, recent := b.openStream(b.newGetRequest(session...)), b.openStream(b.newRequest(t.Context(), body, headers...))
			recent.nextEvent()
			b.server.Drain()
			if got := legacy.nextEvent(); got != "" {
				t.Errorf("session's: %q", got)
			}
			want := "event: message\ndata: " + `{"jsonrpc":"2.0","id":"m","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"m"}}}` + "\n\n"
			if got := recent.nextEvent(); got != want {
				t.Errorf("2026-07-28: %q", got)
			}
			if got := recent.nextEvent(); got != "" {
				t.Errorf("after the end: %q", got)
			}
		}
		began := time.Now()
		open()
		open() // later streams
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
		b.server.CatalogMayHaveChanged()
	})
}
