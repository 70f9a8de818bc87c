package e2e_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// answerAsClerk answers as the demo's script does.
func answerAsClerk(r *modelserver.Request) modelserver.Answer {
	var inbox struct {
		Invoices []struct {
			ID   string          `json:"id"`
			Rows json.RawMessage `json:"rows"`
		} `json:"invoices"`
	}
	tried := 0
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			if c.Name == "drive__save_csv" {
				tried++
			}
		}
		for _, result := range m.Results {
			if strings.HasPrefix(result.Text, `{"invoices"`) {
				_ = json.Unmarshal([]byte(result.Text), &inbox) // then there are no messages
			}
		}
	}
	switch {
	case len(r.Messages) == 1:
		return modelserver.Answer{Text: "I look into the inbox.", Calls: []modelserver.Call{{Name: "inbox__list_invoices"}}}
	case tried < len(inbox.Invoices):
		next := inbox.Invoices[tried]
		arguments, err := json.Marshal(map[string]any{"filename": next.ID, "rows": next.Rows})
		if err != nil {
			return modelserver.Answer{Text: err.Error()}
		}
		return modelserver.Answer{Text: "I save " + next.ID + ".", Calls: []modelserver.Call{{Name: "drive__save_csv", Arguments: string(arguments)}}}
	}
	return modelserver.Answer{Text: "All invoices are dealt with."}
}

// TestDemoWithARealModel: if the environment names a model server, the demo's agent uses it and does the same.
func TestDemoWithARealModel(t *testing.T) {
	t.Parallel()
	for provider, variable := range map[string]string{modelserver.OpenAI: "OPENAI", modelserver.Anthropic: "ANTHROPIC"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			w := newEmbeddedWorld(t)
			model, url := startModel(t, answerAsClerk)
			if provider == modelserver.OpenAI {
				url += "/v1"
			}
			o := w.serverOptions()
			o.Command, o.Port = "demo", holdpoint.FreePort(t)
			o.Env = append(o.Env, variable+"_BASE_URL="+url, variable+"_API_KEY=key", variable+"_MODEL=test-model")
			p := program.Serve(t, o)
			approveInvoice(t, p, w.dataDir, "invoice-2026-001")
			if err := operatorAPI(p).Reject(t.Context(), pendingInvoice(t, p, "invoice-2026-002"), "not this one"); err != nil {
				t.Fatal(err)
			}
			approveInvoice(t, p, w.dataDir, "invoice-2026-003")
			showsInOrder(t, p, 0,
				"agent    says: I look into the inbox.",
				"agent    says: I save invoice-2026-001.",
				"agent    says: I save invoice-2026-002.",
				`agent    got an error: This call was rejected by a reviewer and not executed. Do not repeat it unchanged; try something else. Reason: "not this one"`,
				"agent    says: I save invoice-2026-003.",
				"agent    says: All invoices are dealt with.",
				"agent    is done; press Ctrl-C to end the demo",
			)
			if _, err := os.Stat(invoiceFile(w.dataDir, "invoice-2026-002")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file of a rejected call: %v", err)
			}
			if requests := model.Requests(); len(requests) != 5 || requests[0].Model != "test-model" {
				t.Errorf("%d requests", len(requests))
			}
		})
	}
}
