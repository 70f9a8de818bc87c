package rule_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
)

// TestHistory compares the answers of a history, in whose windows calls come and go, with sums that are made anew for each call.
func TestHistory(t *testing.T) {
	t.Parallel()
	programs := rule.NewPrograms(time.Now)
	t.Cleanup(programs.Close)
	random := rand.New(rand.NewPCG(3, 4))
	start := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	pick := func(names ...string) string { return names[random.IntN(len(names))] }
	sent := make([]rule.Call, 600)
	for i := range sent {
		sent[i] = rule.Call{
			Subject: rule.Subject{Agent: pick("billing", "support"), Skill: pick("ledger", "mail"), Tool: pick("post_payment", "post_refund", "list")},
			ID:      uuid.New(), Principal: pick("", "ada", "bob"), Conversation: pick("", "1", "2", "3"),
			Arguments: json.RawMessage(fmt.Sprintf(`{"amount":%d,"to":%q}`, 1+random.IntN(9), pick("x", "y", "z"))),
			At:        start.Add(time.Duration(random.IntN(7200)) * time.Second),
		}
	}
	spec := rule.Spec{
		Name: "limit", Skills: []string{"ledger"}, Tools: []string{"post_*"}, Effect: rule.Deny, Mode: rule.Enforce,
		When: `calls("10m") == -1 || calls("1h", "agent") == -1 || calls("1h", "tool") == -1 || spent("amount", "30m") == -1 || distinct("to", "5m") == -1 || after("ledger/list")`,
	}
	book := rule.NewBook(1, []rule.Rule{{Spec: spec}}, nil, programs)
	prepared := book.Prepare(t.Context(), book.Find(rule.Subject{Agent: "billing", Skill: "ledger", Tool: "post_payment"}), rule.Schema{})
	history := rule.NewHistory(append([]rule.Call(nil), sent...))
	for n, order := range []int{-1, 1, 0} { // backwards, forwards, at random
		for i := range 300 {
			judged := sent[random.IntN(len(sent))]
			judged.Conversation = pick("1", "2")
			switch order {
			case -1:
				judged.ID, judged.At = uuid.New(), start.Add(time.Duration(7200-24*i)*time.Second)
			case 1:
				judged.ID, judged.At = uuid.New(), start.Add(time.Duration(24*i)*time.Second)
			default:
				judged.At = judged.At.Add(time.Second) // it is itself in the window
			}
			in := &condition.Input{Arguments: judged.Arguments}
			memory := history.Remember(t.Context(), prepared, in, &judged)
			for q, got := range memory["limit"] {
				want := 0
				values := map[string]bool{readTo(t, judged.Arguments): true}
				for _, c := range sent {
					counts := spec.Covers(c.Subject) && c.At.Before(judged.At) && !c.At.Before(judged.At.Add(-q.Window)) && c.ID != judged.ID &&
						(q.Of != condition.OfAgent || c.Agent == judged.Agent) && (q.Of != condition.OfTool || c.Skill == judged.Skill && c.Tool == judged.Tool)
					var args struct {
						Amount int
						To     string
					}
					if err := json.Unmarshal(c.Arguments, &args); err != nil {
						t.Fatal(err)
					}
					switch {
					case q.Function == condition.After && c.Conversation == judged.Conversation && c.Skill == "ledger" && c.Tool == "list" && c.At.Before(judged.At):
						want = 1
					case q.Function == condition.Spent && counts:
						want += args.Amount
					case q.Function == condition.Calls && counts:
						want++
					case q.Function == condition.Distinct && counts:
						values[args.To] = true
					}
				}
				expected := condition.AnswerCount(want)
				switch q.Function {
				case condition.After:
					expected = condition.AnswerYes(want == 1)
				case condition.Distinct:
					expected = condition.AnswerCount(len(values))
				}
				if got != expected {
					t.Fatalf("order %d, call %d, %+v: %v, want %v", n, i, q, got, expected)
				}
			}
		}
	}
}

func readTo(t *testing.T, arguments json.RawMessage) string {
	t.Helper()
	var args struct{ To string }
	if err := json.Unmarshal(arguments, &args); err != nil {
		t.Fatal(err)
	}
	return args.To
}

// TestAsks: a rule asks about earlier calls only if its answer for the call depends on them.
func TestAsks(t *testing.T) {
	t.Parallel()
	programs := rule.NewPrograms(time.Now)
	t.Cleanup(programs.Close)
	book := rule.NewBook(1, []rule.Rule{
		{Spec: rule.Spec{Name: "plain", When: `args.n > 1`, Effect: rule.Park, Mode: rule.Enforce}},
		{Spec: rule.Spec{Name: "counts", When: `args.n > 1 && calls("1h") < 3`, Effect: rule.Allow, Mode: rule.Enforce}},
	}, nil, programs)
	prepared := book.Prepare(t.Context(), book.Find(rule.Subject{}), rule.Schema{})
	for arguments, want := range map[string]int{`{"n":1}`: 0, `{"n":2}`: 1, `{}`: 1} {
		in := &condition.Input{Arguments: json.RawMessage(arguments)}
		if asks := prepared.FindAsks(t.Context(), in); len(asks) != want || want > 0 && asks[0].Rule.Name != "counts" {
			t.Errorf("%s: %d rules ask, want %d", arguments, len(asks), want)
		}
		for _, a := range prepared.Apply(t.Context(), in, nil) {
			if a.Name == "counts" && a.Failure == "" {
				t.Errorf("%s: the rule applies without knowing earlier calls", arguments)
			}
		}
	}
}
