package mcpserver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestSubscriptionsOfSessions(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.others.updates = make(chan resource.Change)
		session := b.startSession()
		who := resource.Who{AgentID: b.agents.agents["billing"].ID, Conversation: uuid.MustParse(session[1])}
		for _, what := range []string{"subscribe", "unsubscribe"} {
			a := b.post(formatRequest("resources/"+what, `"uri":"x:1"`), session...)
			if last := b.others.lastRequest(); a.body != `{"jsonrpc":"2.0","id":1,"result":{}}` || last.what != what || last.name != "x:1" || last.who != who {
				t.Errorf("%s: %s, asked %+v", what, a.body, last)
			}
		}
		stream := b.openStream(b.newGetRequest(session...))
		b.others.updates <- resource.Change{Updated: []string{"x:1", "x:\"2"}}
		for _, uri := range []string{`"x:1"`, `"x:\"2"`} {
			want := "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":` + uri + `}}` + "\n\n"
			if got := stream.nextEvent(); got != want {
				t.Errorf("%q", got)
			}
		}
		if last := b.others.lastRequest(); last.what != "follow session" || last.who != who {
			t.Errorf("followed %+v", last)
		}
		b.others.updates <- resource.Change{Lists: []resource.Kind{resource.Resources, resource.Prompts}}
		for _, list := range []string{"resources", "prompts"} {
			want := "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/` + list + `/list_changed"}` + "\n\n"
			if got := stream.nextEvent(); got != want {
				t.Errorf("%q", got)
			}
		}
		stream.wantQuiet(time.Minute)
		r := b.newGetRequest(session...)
		r.Method = "DELETE"
		b.sendRequest(r)
		if len(b.others.ended) != 1 || b.others.ended[0] != who.Conversation {
			t.Errorf("ended %v", b.others.ended)
		}
	})
}

func TestSubscribeRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session := b.startSession()
	none := &resource.SkillError{Skill: "files", Failure: &tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(`{"code":-32601,"message":"none"}`)}}
	for _, c := range []struct {
		params string
		err    error
		want   string
	}{
		{``, nil, `"code":-32602,"message":"/params/uri: must be a URI`},
		{`"uri":"` + strings.Repeat("x", 8193) + `"`, nil, `"code":-32602,"message":"/params/uri: must be a URI`},
		{`"uri":"x:\u0000"`, nil, `"code":-32602,"message":"/params/uri: must be a URI`},
		{`"uri":"x:1"`, resource.ErrDenied, `"code":-32002`},
		{`"uri":"x:1"`, resource.ErrTooMany, `too_many_subscriptions`},
		{`"uri":"x:1"`, none, `"error":{"code":-32601,"message":"none"}`},
		{`"uri":"x:1"`, errors.New("no database"), `"code":-32603,"message":"internal error`},
	} {
		b.others.setAnswer("", c.err)
		if a := b.post(formatRequest("resources/subscribe", c.params), session...); !strings.Contains(a.body, c.want) {
			t.Errorf("%.60s: %s", c.params, a.body)
		}
	}
	b.others.setAnswer("", nil)
	for _, headers := range [][]string{nil} { // without a session there is no stream
		if a := b.post(formatRequest("resources/subscribe", `"uri":"x:1"`), headers...); memberAt(decodeJSON(t, a.body), "error", "code") != -32601.0 {
			t.Errorf("no session: %s", a.body)
		}
	}
	body, headers := modernRequest("resources/subscribe", `"uri":"x:1"`)
	if a := b.post(body, headers...); memberAt(decodeJSON(t, a.body), "error", "code") != -32601.0 {
		t.Errorf("2026-07-28: %s", a.body)
	}
	if last := b.others.lastRequest(); last.what != "" {
		t.Errorf("asked %+v", last)
	}
}

func TestListenToResources(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.others.updates = make(chan resource.Change)
		body, headers := modernRequest("subscriptions/listen", `"notifications":{"promptsListChanged":true,"resourceSubscriptions":["x:2","x:denied","x:1","x:2"]}`)
		stream := b.openStream(b.newRequest(t.Context(), body, headers...))
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":"m"}`
		event := func(method, params string) string {
			return "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + meta + `,` + params + `}}` + "\n\n"
		}
		if got := stream.nextEvent(); got != event("subscriptions/acknowledged", `"notifications":{"promptsListChanged":true,"resourceSubscriptions":["x:1","x:2"]}`) {
			t.Errorf("ack %q", got)
		}
		b.others.updates <- resource.Change{Updated: []string{"x:1"}, Lists: []resource.Kind{resource.Resources}}
		if got := stream.nextEvent(); got != event("resources/updated", `"uri":"x:1"`) {
			t.Errorf("update %q", got)
		}
		if last := b.others.lastRequest(); last.what != "follow" || last.name != "x:1 x:2" {
			t.Errorf("followed %+v", last)
		}
		b.others.updates <- resource.Change{Lists: []resource.Kind{resource.Resources, resource.Prompts}}
		if got, want := stream.nextEvent(), strings.Replace(event("prompts/list_changed", ""), ",}", "}", 1); got != want {
			t.Errorf("list %q", got)
		}
		b.changeTools(echoTool) // to which no client subscribed
		stream.wantQuiet(time.Minute)
		for _, wrong := range []string{`"x:1"`, `[1]`, `[""]`, `["` + strings.Repeat(`x","`, 100) + `y"]`} {
			body, headers := modernRequest("subscriptions/listen", `"notifications":{"resourceSubscriptions":`+wrong+`}`)
			a := b.post(body, headers...)
			if memberAt(decodeJSON(t, a.body), "error", "code") != -32602.0 || !strings.Contains(a.body, "/params/notifications/resourceSubscriptions") {
				t.Errorf("%.40s: %s", wrong, a.body)
			}
		}
	})
}
