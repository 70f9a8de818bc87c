package e2e_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

const serversOwnKey = "sk-the-servers-own-0123456789"

// clumsyScript is a model whose server is busy and breaks off, and whose calls partly name no tool or are not JSON.
func clumsyScript() modelserver.Script {
	record := modelserver.Call{Name: "counting__record", Arguments: `{"n":1,"note":"<&> überall"}`}
	return modelserver.Sequence(
		modelserver.Answer{Fault: modelserver.Fault{Status: 429, RetryAfter: "1"}},
		modelserver.Answer{Text: "I record on", Fault: modelserver.Fault{After: 3, Cut: true}},
		modelserver.Answer{Thinking: "One, two.", Text: "I record both.", Calls: []modelserver.Call{
			record, {Name: "counting__record", Arguments: `{"n":2}`}, {Name: "counting__write", Arguments: `{"n":3}`}, {Name: "counting__record", Arguments: `{"n": 4`},
		}},
		modelserver.Answer{Text: "Recorded one and two."},
	)
}

// TestModels: conversations work in the real wire formats, with the model access that the server was given.
func TestModels(t *testing.T) {
	t.Parallel()
	for format, path := range map[string]string{modelserver.OpenAI: "/v1", modelserver.Anthropic: ""} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			models := modelserver.New(clumsyScript())
			models.Key = serversOwnKey
			listening := httptest.NewServer(models)
			t.Cleanup(listening.Close)
			counting := skill.NewCounting(t)
			w := newWorld(t)
			o := w.serverOptions()
			prefix := strings.ToUpper(format)
			o.Env = []string{prefix + "_BASE_URL=" + listening.URL + path, prefix + "_API_KEY=" + serversOwnKey}
			p := program.Serve(t, o)
			w.applyManifest(p, oneSkill(counting.URL, "")+"    model: {provider: "+format+", name: m1, input_price: 1}\n")
			chat := newCLI(p, w.newAgent(p, "worker").Key).Start(t, "chat", "worker", "Record one and two.")
			awaitPending(t, p, 2)
			approvePending(t, p)
			ran := <-chat
			if ran.Code != 0 || !strings.HasSuffix(ran.Stdout, "I record both.\nRecorded one and two.\n") {
				t.Errorf("chat ended %d: %s\n%s", ran.Code, ran.Stdout, ran.Stderr)
			}
			// A terminal cannot take back printed text, so the command marks it as void.
			if shown := ran.Stdout != "I record both.\nRecorded one and two.\n"; shown != strings.Contains(ran.Stderr, "void") {
				t.Errorf("what broke off: %s\n%s", ran.Stdout, ran.Stderr)
			}
			checkModels(t, models, counting)
			if log := p.Output(); strings.Contains(log, serversOwnKey) {
				t.Errorf("the key is in the log: %s", log)
			}
		})
	}
	t.Run("a place that an agent names", func(t *testing.T) {
		t.Parallel()
		testForeignModels(t)
	})
}

// checkModels compares the model server's last requests and the executed calls with the conversation.
func checkModels(t *testing.T, models *modelserver.Server, counting *skill.Counting) {
	t.Helper()
	requests := models.Requests()
	if len(requests) != 4 || len(models.Refusals()) != 0 {
		t.Fatalf("%d requests, refused %q", len(requests), models.Refusals())
	}
	if said := requests[3].Messages[1].Text; said != "I record both." { // nothing of the interrupted answer
		t.Errorf("the model is told that it said %q", said)
	}
	results := requests[3].Last().Results
	if len(results) != 4 {
		t.Fatalf("results %+v", results)
	}
	for i, want := range []string{"recorded 1", "recorded 2", "There is no tool named", "cannot be read"} {
		if !strings.Contains(results[i].Text, want) {
			t.Errorf("result %d is %q, want %q", i, results[i].Text, want)
		}
	}
	arrived := []int{counting.Count("1"), counting.Count("2"), counting.Count("3"), counting.Count("4")}
	if !slices.Equal(arrived, []int{1, 1, 0, 0}) {
		t.Errorf("executed %v times", arrived)
	}
}

// testForeignModels: the server's own key is not sent to a URL that an agent's spec names.
func testForeignModels(t *testing.T) {
	t.Helper()
	models := modelserver.New(modelserver.Sequence(modelserver.Answer{Text: "Hello."}))
	listening := httptest.NewServer(models)
	t.Cleanup(listening.Close)
	w := newWorld(t)
	o := w.serverOptions()
	o.Env = []string{"OPENAI_API_KEY=" + serversOwnKey, "OPENAI_BASE_URL=" + listening.URL + "/v1"}
	p := program.Serve(t, o)
	w.applyManifest(p, "agents:\n  - name: worker\n    model: {provider: openai, name: m1, base_url: "+listening.URL+"/v1}\n")
	newCLI(p, w.newAgent(p, "worker").Key).Must(t, "chat", "worker", "Hi.")
	if r := models.Requests()[0]; len(r.Header["Authorization"]) != 0 || strings.Contains(string(r.Body), serversOwnKey) {
		t.Errorf("the key was sent: %v", r.Header)
	}
}
