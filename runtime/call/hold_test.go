package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

func TestQueueByUnusual(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 3 {
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d,"to":"ana"}`, n))
		check(t, w.decide(ticket.ID, true))
		w.waitForEnd(ticket.ID)
		check(t, w.calls.MarkDelivered(t.Context(), ticket.ID)) // or the same call would attach to this one
	}
	w.calls.ForgetHistories()
	w.secondReviewers(agent.EditsSecond, nil)
	var ids []uuid.UUID
	for _, arguments := range []string{`{"n":1,"to":"ana"}`, `{"n":7,"to":"ana"}`, `{"n":7,"to":"eve"}`, `{"n":8,"to":"ana"}`, `{"n":2,"to":"ana"}`} {
		ids = append(ids, w.submit("files__write", arguments).ID)
	}
	if _, err := w.approveWith(ids[4], `{"n":9,"to":"ben"}`); err != nil { // the edit waits for a second reviewer
		t.Fatal(err)
	}
	for limit, want := range map[int]string{1: "24130", 2: "24130", 10: "24130"} {
		f := approval.QueueFilter{Limit: limit, Order: approval.ByUnusual}
		if got := strings.ReplaceAll(w.listOrder(f, ids), "|", ""); got != want {
			t.Errorf("pages of %d: order %s, want %s", limit, got, want)
		}
	}
}

// listOrder lists the queue by pages, and returns the places of its calls in ids, with "|" between pages.
func (w *world) listOrder(f approval.QueueFilter, ids []uuid.UUID) string {
	w.t.Helper()
	var order strings.Builder
	for {
		page, next, err := w.calls.ListQueue(w.t.Context(), f)
		check(w.t, err)
		for _, one := range page {
			fmt.Fprint(&order, slices.Index(ids, one.Call.ID))
		}
		if next.CallID == uuid.Nil {
			return order.String()
		}
		if f.After, err = approval.ParsePosition(next.String()); err != nil || f.After.String() != next.String() {
			w.t.Fatalf("position %s: %v", next, err)
		}
		order.WriteString("|")
	}
}

func TestQueueByRiskAndTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []uuid.UUID
	for _, name := range []string{"write", "echo", "write", "write", "echo"} {
		ids = append(ids, w.submit("files__"+name, fmt.Sprintf(`{"n":%d}`, len(ids))).ID)
	}
	w.db.Exec(`UPDATE approvals SET destructive = true WHERE call_id = $1`, ids[3])
	w.db.Exec(`UPDATE approvals SET team = 'payments' WHERE call_id = $1`, ids[2])
	w.secondReviewers("", map[string]agent.ToolSettings{"echo": {Risk: agent.RiskHigh}}) // after the calls were parked
	for _, tt := range []struct {
		filter approval.QueueFilter
		want   string
	}{
		{approval.QueueFilter{Limit: 10}, "01234"},
		{approval.QueueFilter{Limit: 10, Order: approval.ByRisk}, "14302"},
		{approval.QueueFilter{Limit: 1, Order: approval.ByRisk}, "1|4|3|0|2"},
		{approval.QueueFilter{Limit: 10, ByTool: true}, "14023"},
		{approval.QueueFilter{Limit: 1, ByTool: true}, "1|4|0|2|3"},
		{approval.QueueFilter{Limit: 2, ByTool: true, Order: approval.ByRisk}, "14|30|2"},
		{approval.QueueFilter{Limit: 2, Order: approval.ByRisk, Teams: []string{"payments"}}, "21|43|0"},
		{approval.QueueFilter{Limit: 2, ByTool: true, Teams: []string{"payments"}}, "14|20|3"},
	} {
		if got := w.listOrder(tt.filter, ids); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.filter, got, tt.want)
		}
	}
}

// reviewers is a fixed list.
type reviewers []uuid.UUID

func (r reviewers) Reviewers(context.Context) ([]identity.Eligible, error) {
	list := make([]identity.Eligible, len(r))
	for i, person := range r {
		list[i].Person = person
	}
	return list, nil
}

func TestClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, ben, stranger := w.reviewer, uuid.New(), uuid.New()
	people := reviewers{ana, ben}
	id := w.submit("files__write", `{"n":1}`).ID
	holder := func(waiting call.Waiting, err error) [2]uuid.UUID {
		t.Helper()
		check(t, err)
		return [2]uuid.UUID{waiting.Approval.HeldBy, waiting.Approval.AssignedBy}
	}
	mine := func(person uuid.UUID) int {
		list, _, err := w.calls.ListQueue(t.Context(), approval.QueueFilter{HeldBy: person, Limit: 10})
		check(t, err)
		counts, err := w.calls.CountQueue(t.Context(), approval.QueueFilter{HeldBy: person})
		check(t, err)
		if counts.All != len(list) {
			t.Errorf("%d in the list, %d counted", len(list), counts.All)
		}
		return len(list)
	}
	before, err := w.calls.ReadPulse(t.Context())
	check(t, err)
	if got := holder(w.calls.Claim(t.Context(), id, ana)); got != [2]uuid.UUID{ana} || mine(ana) != 1 || mine(ben) != 0 {
		t.Errorf("claimed: held by %v", got)
	}
	holder(w.calls.Claim(t.Context(), id, ana)) // changes nothing
	if after, err := w.calls.ReadPulse(t.Context()); err != nil || after.Moved == before.Moved {
		t.Errorf("the pulse did not change: %v", err)
	}
	if got := holder(w.calls.Assign(t.Context(), id, ben, ana, people)); got != [2]uuid.UUID{ben, ana} || mine(ben) != 1 {
		t.Errorf("assigned: held by %v", got)
	}
	if got := holder(w.calls.Claim(t.Context(), id, ben)); got != [2]uuid.UUID{ben} {
		t.Errorf("accepted: held by %v", got)
	}
	if got := holder(w.calls.Release(t.Context(), id, ana)); got != [2]uuid.UUID{} || mine(ben) != 0 {
		t.Errorf("released: held by %v", got)
	}
	holder(w.calls.Release(t.Context(), id, ana)) // changes nothing
	if _, err := w.calls.Assign(t.Context(), id, stranger, ana, people); !isInvalid(err) {
		t.Errorf("assigned to a stranger: %v", err)
	}
	if got, want := w.db.Actions(id), "call.parked approval.claimed approval.assigned approval.claimed approval.released"; got != want {
		t.Errorf("audit: %s, want %s", got, want)
	}
	// Other reviewers may decide a claimed call, and a decision ends the claim.
	holder(w.calls.Claim(t.Context(), id, ben))
	check(t, w.decide(id, true))
	w.waitForEnd(id)
	var conflict *approval.ConflictError
	if _, err := w.calls.Claim(t.Context(), id, ben); !errors.As(err, &conflict) {
		t.Errorf("claimed after the decision: %v", err)
	}
	if mine(ben) != 0 {
		t.Error("a decided call is in the list of its holder")
	}
	if _, err := w.calls.Claim(t.Context(), uuid.New(), ben); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("claimed an unknown call: %v", err)
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*fault.InvalidError](err)
	return ok
}

func TestPrincipalsDoNotClaimTheirCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit("files__write", `{"n":1}`).ID
	w.db.Exec(`UPDATE approvals SET principal_id = $2 WHERE call_id = $1`, id, w.reviewer)
	if _, err := w.calls.Claim(t.Context(), id, w.reviewer); !errors.Is(err, approval.ErrSelfApproval) {
		t.Errorf("claimed: %v", err)
	}
	if _, err := w.calls.Assign(t.Context(), id, w.reviewer, uuid.New(), reviewers{w.reviewer}); !isInvalid(err) {
		t.Errorf("assigned: %v", err)
	}
}

func TestComments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit("files__write", `{"n":1}`).ID
	for _, bad := range []string{"", " \n", strings.Repeat("é", 2001), "x\x00", "\xff"} {
		if _, err := w.calls.Comment(t.Context(), id, w.reviewer, bad); !isInvalid(err) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
	for i := range approval.MaxComments {
		text := fmt.Sprint("the secret remark ", i)
		if i == 1 {
			text = strings.Repeat("é", 2000)
		}
		waiting, err := w.calls.Comment(t.Context(), id, w.reviewer, text)
		check(t, err)
		if waiting.Approval.Comments != i+1 {
			t.Fatalf("%d comments", waiting.Approval.Comments)
		}
	}
	if _, err := w.calls.Comment(t.Context(), id, w.reviewer, "one more"); !errors.Is(err, approval.ErrComments) {
		t.Errorf("a comment too many: %v", err)
	}
	list, err := w.calls.ListComments(t.Context(), id)
	check(t, err)
	if len(list) != approval.MaxComments || list[0].Text != "the secret remark 0" || list[0].By != w.reviewer || list[99].Number != 100 {
		t.Errorf("%d comments, the first is %+v", len(list), list[0])
	}
	// The agent learns of the decision, and never of a comment.
	check(t, w.decide(id, false))
	told, err := json.Marshal(w.waitForEnd(id))
	check(t, err)
	if strings.Contains(string(told), "remark") || !strings.Contains(string(told), "because") {
		t.Errorf("the call has a comment: %s", told)
	}
}
