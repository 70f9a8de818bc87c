package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/collector"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// dashboard is the tested part of docs/grafana.json.
type dashboard struct {
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID         int    `json:"id"`
		Type       string `json:"type"`
		Title      string `json:"title"`
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		Targets []struct {
			Expr       string `json:"expr"`
			Datasource struct {
				UID string `json:"uid"`
			} `json:"datasource"`
		} `json:"targets"`
		GridPos struct{ X, Y, W, H int } `json:"gridPos"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	selector  = regexp.MustCompile(`\{[^}]*\}`)
	grouping  = regexp.MustCompile(`\b(by|without|on|ignoring) \([^)]*\)`)
	metric    = regexp.MustCompile(`\b[a-z]+_[a-z0-9_]+\b`)
	functions = []string{"histogram_quantile"}
)

// metricsOf returns the names of the metrics in an expression.
func metricsOf(expr string) []string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "")
	names := metric.FindAllString(grouping.ReplaceAllString(selector.ReplaceAllString(expr, ""), ""), -1)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(functions, name) })
}

// TestDashboardShape: panels use the selected data source and do not overlap.
func TestDashboardShape(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if v := d.Templating.List[0]; v.Name != "datasource" || v.Type != "datasource" || string(v.Query) != `"prometheus"` {
		t.Errorf("the first variable is %+v", v)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %d is there twice", p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is too wide", p.Title)
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || p.Title == "" {
			t.Errorf("panel %q: data source %q, %d targets", p.Title, p.Datasource.UID, len(p.Targets))
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || len(metricsOf(target.Expr)) == 0 {
				t.Errorf("panel %q asks %q for %q", p.Title, target.Datasource.UID, target.Expr)
			}
		}
	}
	for _, subject := range []string{
		"holdpoint_approvals_pending", "holdpoint_decision_wait_seconds", "holdpoint_calls_total", "holdpoint_call_duration_seconds",
		"holdpoint_skill_request_duration_seconds", "holdpoint_conversations_at_work", "gen_ai_client_token_usage", "holdpoint_model_cost_total", "holdpoint_jobs",
	} {
		text, err := json.Marshal(d.Panels)
		if err != nil || !strings.Contains(string(text), subject) {
			t.Errorf("no panel is about %s", subject)
		}
	}
}

// TestDashboardAsksForWhatThereIs: a server exports each metric of the dashboard after some calls, a decision, a job that waits, and a
// conversation whose model failed once.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	t.Parallel()
	w, skill, c := newWorld(t), newTracedSkill(t), collector.New(t)
	models := httptest.NewServer(modelserver.New(modelserver.Sequence(
		modelserver.Answer{Fault: modelserver.Fault{Status: http.StatusTooManyRequests}},
		modelserver.Answer{Text: "I record it.", Calls: []modelserver.Call{{Name: "counting__record", Arguments: `{"n":7}`}}},
		modelserver.Answer{Text: "Recorded."},
	)))
	t.Cleanup(models.Close)
	o := w.serverOptions()
	o.Env = traceEnvironment(c)
	p := program.Serve(t, o)
	w.applyManifest(p, oneSkill(skill.URL, "team: first\nescalate_to: second\n")+fmt.Sprintf(`    model:
      provider: openai
      name: small
      base_url: %s/v1
      api_key: test
      input_price: 1
      output_price: 2
`, models.URL))
	agent := w.newAgent(p, "worker")
	var begun struct {
		ID string `json:"id"`
	}
	if err := (holdpoint.API{URL: p.URL, Token: agent.Key}).Do(t.Context(), http.MethodPost, "conversations", map[string]string{"message": "Record seven."}, &begun); err != nil {
		t.Fatal(err)
	}
	approveN(t, "7", p)
	wanted := wantedMetrics(t)
	eventually.Succeeds(t, patience, "metrics of the dashboard", func() error {
		told, err := scrapeMetrics(t, p)
		if err != nil {
			return err
		}
		for _, name := range wanted {
			if !told[name] {
				return fmt.Errorf("/metrics does not tell of %s", name)
			}
		}
		return nil
	})
}

func wantedMetrics(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			names = append(names, metricsOf(target.Expr)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// scrapeMetrics returns the names of all series. It checks that no label has an id or a secret, which would make the
// number of series unbounded.
func scrapeMetrics(t *testing.T, p *holdpoint.Process) (map[string]bool, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %s", response.Status)
	}
	told := map[string]bool{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if identifier.MatchString(line) {
			t.Errorf("a label has an id: %s", line)
		}
		told[line[:strings.IndexAny(line, "{ ")]] = true
	}
	return told, lines.Err()
}

var identifier = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-`)
