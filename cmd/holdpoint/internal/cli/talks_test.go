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
	f := newFake(t).setAnswer("GET /api/v1/conversations", `{"items":[`+one+`],"next_cursor":null}`).setAnswer("GET "+path, one).
		setAnswer("GET /api/v1/calls", `{"items":[],"next_cursor":null}`).setAnswer("POST "+path+"/cancel", one).setAnswer("POST "+path+"/close", one).
		setAnswer("POST "+path+"/fork", one).
		setAnswer("GET "+path+"/messages", `{"items":[{"at":"2026-01-02T03:00:05Z",`+userEntry[1:]+`,{"at":"2026-01-02T03:00:05Z",`+writeReply[1:]+`],"next_cursor":"2"}`)
	wantContains(t, "list", f.run("conversations", "list").wantCode(t, 0).stdout, "waiting for 2 of its calls")
	wantContains(t, "show", f.run("conversations", "show", talkID).wantCode(t, 0).stdout,
		"waiting for 2 of its calls", "1200 in, 34 out", "0.0125", "01980000-0000-7000-8000-0000000000ff", "Messages that wait  1")

	got := f.run("conversations", "messages", talkID, "--limit", "2").wantCode(t, 0)
	wantContains(t, "messages", got.stdout, "hello", "I will write. [files__write {}] [no<U+000A>pe ]")
	wantContains(t, "messages", got.stderr, "--cursor 2")
	for _, action := range []string{"cancel", "close"} {
		wantContains(t, action, f.run("conversations", action, talkID).wantCode(t, 0).stdout, talkID, "waiting")
	}
	wantContains(t, "fork", f.run("conversations", "fork", talkID, "3", "--message", "Again").wantCode(t, 0).stdout, talkID)
	if f.getLastBody() != `{"message":"Again","seq":3}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	if got := f.run("conversations", "fork", talkID, "3", "--json").wantCode(t, 0); got.stdout != one+"\n" || f.getLastBody() != `{"seq":3}` {
		t.Errorf("sent %s, got %s", f.getLastBody(), got.stdout)
	}
	wantContains(t, "fork", f.run("conversations", "fork", talkID, "x").wantCode(t, 1).stderr, "must be its number")
	f.setProblem("POST "+path+"/cancel", 409, `{"status":409,"code":"conversation_idle","detail":"there is nothing to cancel"}`)
	wantContains(t, "cancel", f.run("conversations", "cancel", talkID).wantCode(t, 1).stderr, "there is nothing to cancel (conversation_idle)")
	if shown := f.run("conversations", "show", talkID).stdout; strings.Contains(shown, "more") {
		t.Errorf("shown %s", shown)
	}
}
