package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest/replica"
)

// readMetric returns the value of a series.
func readMetric(ctx context.Context, p *holdpoint.Process, series string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", series)
}

// TestHistoryOnAStandby: history, insights, the audit log and exports are read from the standby, and show a decision that was made just
// before. A call is parked, approved and sent without a read there. When the standby is gone, the primary answers.
func TestHistoryOnAStandby(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	w := &world{t: t, databaseURL: pair.PrimaryURL(), dataDir: passableDir(t)}
	o := w.serverOptions()
	o.ReadURL = pair.StandbyURL()
	server := program.Serve(t, o)
	counting := skill.NewCounting(t)
	w.applyManifest(server, oneSkill(counting.URL, "approval_timeout: 1h\n"))
	agent := w.newAgent(server, "worker")
	reads := func(from string) float64 {
		t.Helper()
		n, err := readMetric(t.Context(), server, `holdpoint_standby_reads_total{server="`+from+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	awaitUsable := func() {
		t.Helper()
		eventually.Succeeds(t, patience, "the standby is used", func() error {
			usable, err := readMetric(t.Context(), server, "holdpoint_standby_usable")
			if err == nil && usable != 1 {
				err = errors.New("it is not")
			}
			return err
		})
	}
	awaitUsable()

	if err := agent.CallAndLeave(t.Context(), "counting__record", `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	api := operatorAPI(server)
	shown, err := pendingFor(t.Context(), "1", server)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Do(t.Context(), http.MethodGet, "approvals/"+shown.ID, nil, &shown); err != nil {
		t.Fatal(err)
	}
	if err := api.Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	awaitCall(t, api, shown.CallID, hasStatus("succeeded"))
	own := holdpoint.API{URL: server.URL, Token: agent.Key}
	if calls, err := holdpoint.List[holdpoint.Call](t.Context(), own, "calls", ""); err != nil || len(calls) != 1 {
		t.Errorf("the agent has %d calls: %v", len(calls), err)
	}
	if standby, primary := reads("standby"), reads("primary"); standby+primary != 0 {
		t.Errorf("read %v times on the way of the call, and %v times instead on the primary", standby, primary)
	}

	for n := 2; n <= 11; n++ { // history shows each decision at once
		if err := agent.CallAndLeave(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
		if shown, err = pendingFor(t.Context(), strconv.Itoa(n), server); err != nil {
			t.Fatal(err)
		}
		if err := api.Reject(t.Context(), shown, "no"); err != nil {
			t.Fatal(err)
		}
		calls, err := holdpoint.List[holdpoint.Call](t.Context(), api, "calls", "status=rejected")
		if err != nil || len(calls) != n-1 {
			t.Errorf("history has %d rejected calls, want %d: %v", len(calls), n-1, err)
		}
	}
	paths := []string{"calls?agent=worker", "calls/export", "insights", "insights/tools", "audit", "audit/export"}
	read := func(path string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+bootstrapToken)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || len(text) == 0 {
			t.Errorf("%s: %s: %v: %s", path, response.Status, err, text)
		}
	}
	for _, path := range paths {
		eventually.Succeeds(t, patience, path+" is read from the standby", func() error {
			before := reads("standby")
			read(path)
			if reads("standby") == before {
				return errors.New("the primary answered")
			}
			return nil
		})
	}

	doctor := newCLI(server, "")
	doctor.Env = append(w.databaseEnv(), postgres.ReadURLVariable+"="+pair.StandbyURL())
	eventually.Succeeds(t, patience, "doctor finds the standby", func() error {
		said := doctor.Run(t, "doctor", "--data-dir", w.dataDir).Stdout
		if !strings.Contains(said, "of HOLDPOINT_READ_DATABASE_URL, follows the primary") {
			return errors.New(said)
		}
		return nil
	})
	doctor.Env = append(w.databaseEnv(), postgres.ReadURLVariable+"="+pair.PrimaryURL())
	if said := doctor.Run(t, "doctor", "--data-dir", w.dataDir).Stdout; !strings.Contains(said, "warn  standby") || !strings.Contains(said, "not a standby") {
		t.Errorf("doctor, with the primary: %s", said)
	}

	pair.Standby.Kill()
	for _, path := range paths {
		read(path)
	}
	if reads("primary") == 0 {
		t.Error("the primary answered nothing, and the standby is gone")
	}
}
