package cli_test

import (
	"strings"
	"testing"
)

const loopAtWork = `{"status":"waiting","code":null,"stopping":false,"last_seq":7,"open_calls":2,"turns":3,"input_tokens":1200,"output_tokens":34,` +
	`"cost":0.0125,"forked_from":"01980000-0000-7000-8000-0000000000ff","pending":[{"id":"x","text":"more","files":[],"call_id":null}]}`

func TestConversationsThatHoldpointRuns(t *testing.T) {
	t.Parallel()
	const one = `{"id":"` + talkID + `","agent":"billing","principal":null,"name":null,"protocol_version":"","problems":[],"created_at":"2026-01-02T03:00:05Z",` +
		`"ended_at":null,"calls":{"total":0,"by_status":{},"last_at":null},"tools":null,"loop":` + loopAtWork + `}`
	const path = "/api/v1/conversations/" + talkID
	f := newFake(t).answer("GET /api/v1/conversations", `{"items":[`+one+`],"next_cursor":null}`).answer("GET "+path, one).
		answer("GET /api/v1/calls", `{"items":[],"next_cursor":null}`).answer("POST "+path+"/cancel", one).answer("POST "+path+"/close", one).
		answer("POST "+path+"/fork", one).
		answer("GET "+path+"/messages", `{"items":[{"at":"2026-01-02T03:00:05Z",`+userEntry[1:]+`,{"at":"2026-01-02T03:00:05Z",`+writeReply[1:]+`],"next_cursor":"2"}`)
	contains(t, "list", f.run("conversations", "list").want(t, 0).stdout, "waiting for 2 of its calls")
	contains(t, "show", f.run("conversations", "show", talkID).want(t, 0).stdout,
		"waiting for 2 of its calls", "1200 in, 34 out", "0.0125", "01980000-0000-7000-8000-0000000000ff", "Messages that wait  1")

	got := f.run("conversations", "messages", talkID, "--limit", "2").want(t, 0)
	contains(t, "messages", got.stdout, "hello", "I will write. [files__write {}] [no<U+000A>pe ]")
	contains(t, "messages", got.stderr, "--cursor 2")
	for _, action := range []string{"cancel", "close"} {
		contains(t, action, f.run("conversations", action, talkID).want(t, 0).stdout, talkID, "waiting")
	}
	contains(t, "fork", f.run("conversations", "fork", talkID, "3", "--message", "Again").want(t, 0).stdout, talkID)
	if f.sent() != `{"message":"Again","seq":3}` {
		t.Errorf("sent %s", f.sent())
	}
	if got := f.run("conversations", "fork", talkID, "3", "--json").want(t, 0); got.stdout != one+"\n" || f.sent() != `{"seq":3}` {
		t.Errorf("sent %s, got %s", f.sent(), got.stdout)
	}
	contains(t, "fork", f.run("conversations", "fork", talkID, "x").want(t, 1).stderr, "must be its number")
	f.refuse("POST "+path+"/cancel", 409, `{"status":409,"code":"conversation_idle","detail":"there is nothing to cancel"}`)
	contains(t, "cancel", f.run("conversations", "cancel", talkID).want(t, 1).stderr, "there is nothing to cancel (conversation_idle)")
	if shown := f.run("conversations", "show", talkID).stdout; strings.Contains(shown, "more") {
		t.Errorf("shown %s", shown)
	}
}
