package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// TestPlanJourney: an agent submits a plan over MCP. A chat is notified. A reviewer approves the plan in the browser without one of its calls. The
// agent learns that, and its calls pass in order.
func TestPlanJourney(t *testing.T) {
	t.Parallel()
	chat := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		message, _ := io.ReadAll(r.Body) // a message that was cut does not have the link
		chat <- string(message)
	}))
	t.Cleanup(receiver.Close)
	base := newWorld(t)
	base.args = []string{"--trusted-hosts", "127.0.0.1"} // the chat runs on this machine
	w := newJourneyIn(base, "approval_timeout: 1h\n")
	cli := newCLI(w.p, bootstrapToken)
	cli.Must(t, "webhooks", "create", "chat", "--to-file", writeFile(t, "url", receiver.URL))
	if answer, err := w.worker.CallTool(t.Context(), "submit_plan", `{}`); err != nil || answer.Error == nil {
		t.Errorf("an agent without the setting got %s, %v", answer.Raw, err)
	}
	cli.Must(t, "agent", "edit", "worker", "--plans")
	ada := w.openReviewer(t, "ada", browsertest.Options{})

	tell := func(tool, arguments string) (id, text string) {
		t.Helper()
		answer, err := w.worker.CallTool(t.Context(), tool, arguments)
		if err != nil {
			t.Fatal(err)
		}
		var meta struct {
			ID string `json:"plan_id"`
		}
		if err := json.Unmarshal(answer.Result.Meta["dev.holdpoint/plan"], &meta); err != nil {
			t.Fatalf("%s: %s, %v", tool, answer.Raw, err)
		}
		return meta.ID, answer.Text()
	}
	var calls []string
	for n := 1; n <= 3; n++ {
		calls = append(calls, fmt.Sprintf(`{"tool":"counting__record","arguments":%s}`, callArguments(n, "planned")))
	}
	id, text := tell("submit_plan", `{"title":"Close the month","calls":[`+strings.Join(calls, ",")+`]}`)
	if !strings.Contains(text, "is pending") {
		t.Errorf("submitted: %s", text)
	}
	if message := <-chat; !strings.Contains(message, w.p.URL+"/plans/"+id) {
		t.Errorf("the chat got %s", message)
	}

	ada.WaitText("pending-plan", "Close the month") // without a reload
	ada.ClickOn("[data-testid=pending-plan] a")
	ada.WaitText("plan", "planned")
	ada.ClickOn(`[name=strike][value="1"]`)
	ada.Click("approve-plan")
	ada.WaitText("plan", "Left out")
	if _, text = tell("check_plan", `{"plan_id":"`+id+`"}`); !strings.Contains(text, "is approved") || !strings.Contains(text, "2. counting__record: the reviewer left it out") {
		t.Errorf("after the approval: %s", text)
	}
	record := func(n int, passes bool) holdpoint.Answer {
		t.Helper()
		answer, err := w.worker.CallTool(t.Context(), "counting__record", callArguments(n, "planned"))
		if err != nil || answer.Pending() == passes {
			t.Errorf("call %d: %s, %v", n, answer.Raw, err)
		}
		return answer
	}
	record(3, false) // not in order
	record(1, true)
	record(2, false)
	record(3, true)
	w.wantSent(1, callArguments(1, "planned"))
	w.wantSent(2, "")
	w.wantSent(3, callArguments(3, "planned"))
	ada.Go(w.p.URL + "/plans/" + id)
	ada.WaitText("plan", "Made")
	ada.Click("revoke-plan")
	ada.WaitText("plan", "Revoked")
	eventually.Succeeds(t, patience, "the agent to learn of the revocation", func() error {
		if _, text := tell("check_plan", `{"plan_id":"`+id+`"}`); !strings.Contains(text, "is revoked") {
			return fmt.Errorf("the agent is told %s", text)
		}
		return nil
	})
}
