package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
)

const transfer = `{"action":"accept","content":{"iban":"DE02","big":9007199254740993}}`

// approveAsked returns an approved call with a question that the client has answered.
func (w *world) approveAsked(principal uuid.UUID, reviewer string) uuid.UUID {
	w.t.Helper()
	ctx := w.t.Context()
	c, err := w.catalog.StartConversation(ctx, w.billing, principal, "2025-11-25", nil)
	check(w.t, err)
	entry, _ := c.Catalog.Lookup("files__write")
	ticket, err := w.calls.Submit(ctx, call.Submission{
		Agent: w.billing, PrincipalID: principal, ConversationID: c.ID, Entry: entry, Arguments: json.RawMessage(`{"n":1}`),
		Caller: call.Caller{Capabilities: json.RawMessage(`{"elicitation":{}}`)},
	})
	check(w.t, err)
	id := ticket.ID
	w.post("approvals/"+id.String()+"/approve", reviewer, fmt.Sprintf(`{"digest":%q}`, w.getDigest(id))).wantStatus(w.t, 200)
	w.waitForQuestion(id, "asked")
	viewer := call.Viewer{AgentID: w.billing.ID, PrincipalID: principal}
	check(w.t, w.calls.Answer(ctx, viewer, id, 1, call.Answer{Result: json.RawMessage(transfer)}))
	return id
}

// waitForQuestion waits until the first question of a call has a status.
func (w *world) waitForQuestion(id uuid.UUID, status string) map[string]any {
	w.t.Helper()
	var list []any
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		list, _ = w.get("approvals/"+id.String(), w.reviewer).wantStatus(w.t, 200)["questions"].([]any)
		if len(list) > 0 {
			if q, _ := list[0].(map[string]any); q["status"] == status {
				return q
			}
		}
	}
	w.t.Fatalf("no question is %s: %v", status, list)
	return nil
}

func TestQuestionIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.approveAsked(uuid.Nil, w.reviewer)
	q := w.waitForQuestion(id, "pending")
	if answer := w.get("approvals/"+id.String(), w.reviewer); !strings.Contains(answer.body, `"answer":`+transfer) {
		t.Errorf("the answer is not as it was given: %s", answer.body)
	}
	if q["review"] != "answer" || q["method"] != "elicitation/create" || q["decision"] != nil || q["deadline"] == nil {
		t.Errorf("the question is %v", q)
	}
	listed := listItems(t, w.get("questions", w.operator).wantStatus(t, 200))
	if len(listed) != 1 {
		t.Fatalf("pending: %v", listed)
	}
	path := "approvals/" + id.String() + "/questions/1/"
	body := fmt.Sprintf(`{"digest":%q,"note":"known account"}`, q["digest"])
	w.post(path+"approve", w.key, body).wantProblem(t, 403, "forbidden")
	w.post(path+"approve", w.operator, body).wantProblem(t, 403, "forbidden")
	w.post(path+"approve", w.reviewer, `{"digest":"00"}`).wantProblem(t, 409, "digest_mismatch")
	w.post(path+"approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, w.getDigest(id))).wantProblem(t, 409, "digest_mismatch") // the digest of the call
	w.post(path+"approve", w.reviewer, ``).wantProblem(t, 409, "digest_mismatch")
	w.post("approvals/"+id.String()+"/questions/2/approve", w.reviewer, body).wantProblem(t, 404, "not_found")
	decided := w.post(path+"approve", w.reviewer, body).wantStatus(t, 200)
	if decided["status"] != "answered" {
		t.Errorf("decided: %v", decided)
	}
	wantMembers(t, "decided", decided, `{"decision":{"by_person":{"subject":"rita","issuer":"holdpoint"},"credential":{"kind":"personal_token"}}}`)
	late := w.post(path+"reject", w.reviewer, body).wantProblem(t, 409, "already_decided")
	wantMembers(t, "decided before", late, `{"decision":{"credential":{"kind":"personal_token"}}}`)
	if decision, _ := late["decision"].(map[string]any); decision["outcome"] != "approved" || decision["by"] == nil || decision["note"] != "known account" {
		t.Errorf("a late decision gets %v", late)
	}
	w.waitForEnd(id)
	if answer := w.get("calls/"+id.String(), w.operator); !strings.Contains(answer.body, `"structuredContent":`+transfer) {
		t.Errorf("the server got another answer: %s", answer.body)
	}
}

// The principal does not decide about questions of their call. After a rejection, the server gets no data.
func TestOwnQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vera := w.createToken("vera", "reviewer")
	id := w.approveAsked(w.personID(w.reviewer), vera)
	q := w.waitForQuestion(id, "pending")
	path, body := "approvals/"+id.String()+"/questions/1/reject", fmt.Sprintf(`{"digest":%q}`, q["digest"])
	w.post(path, w.reviewer, body).wantProblem(t, 403, "self_approval")
	w.post(path, vera, body).wantStatus(t, 200)
	w.waitForEnd(id)
	if answer := w.get("calls/"+id.String(), w.operator); strings.Contains(answer.body, "DE02") || !strings.Contains(answer.body, `"structuredContent":{"action":"decline"}`) {
		t.Errorf("the server got data: %s", answer.body)
	}
}
