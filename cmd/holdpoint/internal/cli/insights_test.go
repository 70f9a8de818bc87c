package cli_test

import (
	"strings"
	"testing"
)

func TestInsights(t *testing.T) {
	t.Parallel()
	const text = `{"from":"2025-12-26T03:00:00Z","to":"2026-01-02T04:00:00Z","bucket":"day",` +
		`"calls":{"total":12,"by_status":{"succeeded":7,"failed":5,"needs_connection":0},"failures":{"transport":5}},` +
		`"calls_before":{"total":4,"by_status":{"succeeded":3,"needs_connection":1},"failures":{}},` +
		`"approvals":{"asked":4,"approved":2,"rejected":1,"expired":1,"approved_share":0.6667,"fast":1,` +
		`"waiting":{"count":4,"p50_seconds":75.4,"p90_seconds":300},"deciding":{"count":3,"p50_seconds":2.34,"p90_seconds":60}},` +
		`"approvals_before":{"asked":0,"approved_share":null,"waiting":{"count":0,"p50_seconds":null,"p90_seconds":null},"deciding":{}},` +
		`"by_skill":[{"skill":"notes","tool":null,"rule":null,"asked":9,"approved":2,"rejected":1,"expired":1,"approved_share":0.6667}],` +
		`"by_tool":[{"skill":"files","tool":"write\u202e","rule":null,"asked":4,"approved":2,"rejected":1,"expired":1,"approved_share":0.6667}],` +
		`"by_rule":[{"rule":"gated","asked":4,"approved":2,"rejected":1,"expired":1,"approved_share":0.6667}],` +
		`"by_person":[{"person":{"id":"p1","name":"rita"},"decisions":3,"fast":1}],` +
		`"unusual":{"by_time":[{"from_seconds":0,"to_seconds":2,"approved":3,"rejected":0},{"from_seconds":60,"to_seconds":null,"approved":0,"rejected":2}],` +
		`"by_person":[{"person":{"id":"p1","name":"rita"},"decisions":5,"median_seconds":1.25,"hasty":3}]}}`
	f := newFake(t).setAnswer("GET /api/v1/insights", text)
	got := f.run("insights").wantCode(t, 0).stdout
	lines := strings.Join(strings.Fields(got), " ")
	wantContains(t, "insights", lines, "NOW BEFORE", "calls 12 4", "succeeded 7 3", "failed: transport 5 0", "needs connection 0 1",
		"approved, of decisions 67 % -", "waiting, median 1m15s -", "waiting, p90 5m0s -", "deciding, median 2.3s -",
		"notes 9 2 1 1 67 %", "files: write<U+202E> 4 2 1 1 67 %", "gated 4 2 1 1 67 %", "rita 3 1",
		"0s to 2s 3 0", "1m0s or more 0 2", "rita 5 1.3s 3")
	if strings.Contains(got, "invalid") {
		t.Errorf("what there is none of is left out:\n%s", got)
	}
	f.run("insights", "--since", "24h", "--skill", "files", "--agent", "billing").wantCode(t, 0)
	f.run("insights", "--since", "2w").wantCode(t, 0)
	f.run("insights", "--to", "2026-01-01T00:00:00Z").wantCode(t, 0)
	f.run("insights", "--from", "2025-01-01T00:00:00Z", "--to", "2025-02-01T00:00:00Z").wantCode(t, 0)
	f.run("insights", "--from", "2026-01-01", "--zone", "Europe/Berlin").wantCode(t, 0)
	want := []string{
		"from=2025-12-26T03%3A04%3A05Z", "agent=billing&from=2026-01-01T03%3A04%3A05Z&skill=files", "from=2025-12-19T03%3A04%3A05Z",
		"to=2026-01-01T00%3A00%3A00Z", "from=2025-01-01T00%3A00%3A00Z&to=2025-02-01T00%3A00%3A00Z",
		"from=2026-01-01&zone=Europe%2FBerlin",
	}
	for i, query := range want {
		if f.asked[i] != "GET /api/v1/insights?"+query {
			t.Errorf("asked %s, want %s", f.asked[i], query)
		}
	}
	if got := f.run("insights", "--json").wantCode(t, 0).stdout; got != text+"\n" {
		t.Errorf("--json: %s", got)
	}
	for _, args := range [][]string{
		{"--since", "soon"}, {"--since", "0d"}, {"--since", "-3h"}, {"--since", "1.5d"}, {"--since", "7d", "--from", "2026-01-01T00:00:00Z"}, {"more"},
	} {
		wantContains(t, strings.Join(args, " "), f.run(append([]string{"insights"}, args...)...).wantCode(t, 1).stderr, "holdpoint: ", "insights")
	}
}

func TestInsightsTools(t *testing.T) {
	t.Parallel()
	const text = `{"from":"2025-12-26T03:00:00Z","to":"2026-01-02T04:00:00Z","total":2,"tools":[` +
		`{"skill":"files","tool":"write\u202e","calls":12,"by_status":{"succeeded":6,"failed":3,"parked":3},"error_share":0.3333,` +
		`"latency":{"count":9,"p50_seconds":0.00123,"p95_seconds":1.5,"p99_seconds":75.4},"measured":9,"bytes_sent":1200,"bytes_received":34000,"last_call_at":"2026-01-02T03:00:00Z"},` +
		`{"skill":null,"tool":"gone","calls":1,"by_status":{"denied":1},"error_share":null,"latency":{"count":0,"p50_seconds":null},"last_call_at":"2026-01-01T03:00:00Z"}],` +
		`"http_statuses":[{"http_status":404,"calls":7}],"steps":[{"step":"validate","count":9,"p50_seconds":0.000012,"p95_seconds":0.00002,"p99_seconds":0.00002}],` +
		`"errors":[{"skill":"files","tool":"write","status":"failed","code":"tool_error","http_status":404,"line":"no such thing\u001b","calls":3,"last_call_at":"2026-01-02T03:00:00Z"}]}`
	f := newFake(t).setAnswer("GET /api/v1/insights/tools", text)
	got := f.run("insights", "tools", "--skill", "files", "--tool", "write", "--sort", "errors", "--zone", "Asia/Tokyo").wantCode(t, 0).stdout
	lines := strings.Join(strings.Fields(got), " ")
	wantContains(t, "insights tools", lines, "of 2 tools", "files: write<U+202E> 12 6 3 0 3 33 % 1.2ms 1.5s 1200 34000", ": gone 1 0 0 0 1 -", "404 7",
		"validate 9 12µs 20µs 20µs", "files: write failed tool_error 404 no such thing<U+001B> 3")
	if want := "GET /api/v1/insights/tools?from=2025-12-26T03%3A04%3A05Z&skill=files&sort=errors&tool=write&zone=Asia%2FTokyo"; f.asked[0] != want {
		t.Errorf("asked %s, want %s", f.asked[0], want)
	}
	if got := f.run("insights", "tools", "--json").wantCode(t, 0).stdout; got != text+"\n" {
		t.Errorf("--json: %s", got)
	}
	f.run("insights", "tools", "--since", "soon").wantCode(t, 1)
}
