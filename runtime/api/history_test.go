package api_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// itemIDs returns the ids of a list's items.
func itemIDs(t *testing.T, v map[string]any) []string {
	t.Helper()
	var list []string
	for _, item := range listItems(t, v) {
		list = append(list, item.(map[string]any)["id"].(string))
	}
	return list
}

func TestSearchCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paula := w.createToken("paula", identity.Reviewer)
	first := w.parkCall(`{"path":"/srv/caf\u00e9"}`)
	hers := w.submitCall("files__write", `{"path":"100%"}`, w.personID(paula))
	rejected := w.parkCall(`{"x":1}`)
	w.post("approvals/"+rejected.String()+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"no"}`, w.getDigest(rejected))).wantStatus(t, 200)
	echo := w.submitCall("open__write", `{}`, uuid.Nil)
	w.waitForEnd(echo)
	conversation, _ := w.get("calls/"+first.String(), w.reviewer).wantStatus(t, 200)["conversation_id"].(string)

	for query, want := range map[string][]uuid.UUID{
		"":                                     {echo, rejected, hers, first},
		"agent=billing":                        {echo, rejected, hers, first},
		"agent=other":                          nil,
		"agent=" + w.billing.ID.String():       {echo, rejected, hers, first},
		"skill=open":                           {echo},
		"skill=files&tool=write":               {rejected, hers, first},
		"tool=files__write":                    {rejected, hers, first},
		"person=paula":                         {hers},
		"person=rita":                          {rejected},
		"person=" + w.personID(paula).String(): {hers},
		"status=rejected,succeeded":            {echo, rejected},
		"status=parked":                        {hers, first},
		"text=" + url.QueryEscape("CAFÉ"):      {first},
		"text=" + url.QueryEscape(`100%`):      {hers},
		"text=%25":                             {hers},
		"conversation=" + conversation:         {first},
		"to=2020-01-01":                        nil,
		"from=2020-01-01&to=2999-12-31":        {echo, rejected, hers, first},
		"from=2999-01-01T10:00":                nil,
	} {
		got := itemIDs(t, w.get("calls?"+query, w.reviewer).wantStatus(t, 200))
		wanted := make([]string, 0, len(want))
		for _, id := range want {
			wanted = append(wanted, id.String())
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: got %v, want %v", query, got, wanted)
		}
	}
	for query, location := range map[string]string{
		"agent=nobody": "query.agent", "skill=a%00": "query.skill", "person=nobody": "query.person", "from=yesterday": "query.from",
		"to=never": "query.to", "conversation=x": "query.conversation", "text=" + strings.Repeat("x", 201): "query.text",
		"text=a%00": "query.text", "tool=%ff": "query.tool", "status=parked,lost": "query.status[1]",
	} {
		v := w.get("calls?"+query, w.operator).wantProblem(t, 422, "invalid_request")
		if errs, _ := json.Marshal(v["errors"]); !strings.Contains(string(errs), `"location":"`+location+`"`) {
			t.Errorf("%s: %v", query, v)
		}
	}
	v := w.get("calls?status=rejected", w.reviewer).wantStatus(t, 200)["items"].([]any)[0].(map[string]any)
	decision, _ := v["decision"].(map[string]any)
	if decision["by"] != "rita" || decision["outcome"] != "rejected" || decision["note"] != "no" {
		t.Errorf("the decision is %v", v["decision"])
	}
}

// No filter shows an agent, or a person without a role, the calls of others, or whether a skill or person exists.
func TestSearchLeaksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paula := w.createToken("paula", identity.Reviewer)
	_, plain, err := w.people.CreateToken(t.Context(), uuid.Nil, "peter", []identity.Role{}, []string{"billing"})
	if err != nil { // people with roles: this caller does not exist
		plain = ""
	}
	hers := w.submitCall("files__write", `{"secret":"paulas"}`, w.personID(paula))
	own := w.parkCall(`{"n":1}`)
	w.post("approvals/"+own.String()+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"no"}`, w.getDigest(own))).wantStatus(t, 200)
	conversation, _ := w.get("calls/"+hers.String(), w.reviewer).wantStatus(t, 200)["conversation_id"].(string)
	for _, token := range []string{w.key, w.newKey("other"), plain} {
		if token == "" {
			continue
		}
		for _, query := range []string{
			"skill=files", "skill=open", "skill=unheard-of", "tool=write", "status=parked", "status=parked,rejected,succeeded", "text=paulas",
			"text=secret", "conversation=" + conversation, "conversation=" + uuid.NewString(), "from=2020-01-01", "to=2999-01-01",
			"text=n&status=parked", "limit=1&status=parked",
		} {
			if token == plain {
				query += "&agent=billing"
			}
			answer := w.get("calls?"+query, token)
			for _, id := range itemIDs(t, answer.wantStatus(t, 200)) {
				if id != own.String() || token != w.key {
					t.Errorf("%s shows %s", query, id)
				}
			}
			if strings.Contains(answer.body, "rita") || strings.Contains(answer.body, hers.String()) || !strings.Contains(answer.body, `"next_cursor":null`) {
				t.Errorf("%s: %s", query, answer.body)
			}
		}
		for _, name := range []string{"paula", "rita", "nobody", w.personID(paula).String()} {
			known := w.get("calls?agent=billing&person="+name, token)
			if known.status == 200 || strings.Contains(known.body, "no") && strings.Contains(known.body, "this one") {
				t.Errorf("person=%s: %d %s", name, known.status, known.body)
			}
			if got := w.get("conversations?agent=billing&person="+name, token); got.status == 200 {
				t.Errorf("conversations, person=%s: %s", name, got.body)
			}
		}
		for _, path := range []string{"calls/export", "calls/export?agent=billing", "audit/export"} {
			w.get(path, token).wantProblem(t, 403, "forbidden")
		}
	}
}

func TestConversationsSayHowTheyStand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paula := w.createToken("paula", identity.Reviewer)
	id := w.submitCall("files__write", `{"n":1}`, w.personID(paula))
	w.submitCall("open__write", `{"n":1}`, uuid.Nil)
	v := w.get("conversations?person=paula", w.reviewer).wantStatus(t, 200)
	if len(listItems(t, v)) != 1 {
		t.Fatalf("got %v", v)
	}
	one := listItems(t, v)[0].(map[string]any)
	calls := one["calls"].(map[string]any)
	if calls["total"] != json.Number("1") || calls["by_status"].(map[string]any)["parked"] != json.Number("1") || calls["last_at"] == nil {
		t.Errorf("calls: %v", calls)
	}
	got := w.get("conversations/"+one["id"].(string), w.reviewer).wantStatus(t, 200)["calls"].(map[string]any)
	if got["total"] != json.Number("1") || got["last_at"] != w.get("calls/"+id.String(), w.reviewer).wantStatus(t, 200)["created_at"] {
		t.Errorf("calls: %v", got)
	}
	w.get("conversations?agent=nobody", w.reviewer).wantProblem(t, 422, "invalid_request")
}

// formulaTexts are texts that a spreadsheet takes for formulas.
func formulaTexts() []string {
	return []string{`=HYPERLINK("http://x","y")`, "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", `"quoted", and, commas`, "'=1"}
}

func TestExportCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arguments := `{"n":9007199254740993,"e":1e400,"z":-0,"s":"\u00e9\u202e<b>","u":"` + "\u2028" + `"}`
	id := w.parkCall(arguments)
	w.post("approvals/"+id.String()+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"=1+1"}`, w.getDigest(id))).wantStatus(t, 200)
	large := w.submitCall("open__write", `{"x":"`+strings.Repeat("y", 100_000)+`"}`, uuid.Nil)
	w.waitForEnd(large)
	for i, text := range formulaTexts() {
		other := w.submitCall("open__write", fmt.Sprintf(`{"i":%d}`, i), uuid.Nil)
		w.waitForEnd(other)
		_, err := w.db.Pool().Exec(t.Context(), `UPDATE calls SET message = $2 WHERE id = $1`, other, text)
		check(t, err)
	}

	lines := w.get("calls/export?skill=files", w.reviewer)
	if lines.status != 200 || lines.header.Get("Content-Type") != "application/jsonl; charset=utf-8" ||
		lines.header.Get("Content-Disposition") != `attachment; filename="calls.jsonl"` {
		t.Errorf("%d %v", lines.status, lines.header)
	}
	if single := w.get("calls/"+id.String(), w.reviewer).body; lines.body != single {
		t.Errorf("the line is %s\nthe API returns %s", lines.body, single)
	}
	if !strings.Contains(lines.body, `"arguments":`+arguments+`,`) {
		t.Errorf("arguments are not as they were sent: %s", lines.body)
	}
	all := strings.Split(strings.TrimSuffix(w.get("calls/export?format=jsonl", w.operator).body, "\n"), "\n")
	if len(all) != len(formulaTexts())+2 {
		t.Fatalf("%d lines", len(all))
	}
	if line := all[len(formulaTexts())]; !strings.Contains(line, strings.Repeat("y", 100_000)) || strings.Contains(line, `"partial"`) {
		t.Errorf("a large call is not whole: %.300s", line)
	}

	table := w.get("calls/export?format=csv", w.operator)
	if table.header.Get("Content-Disposition") != `attachment; filename="calls.csv"` || !strings.HasPrefix(table.header.Get("Content-Type"), "text/csv") ||
		strings.Count(table.body, "\r\n") < len(formulaTexts())+3 {
		t.Errorf("%v", table.header)
	}
	rows, err := csv.NewReader(strings.NewReader(table.body)).ReadAll()
	check(t, err)
	column := func(row []string, name string) string { return row[slices.Index(rows[0], name)] }
	oldest := rows[len(rows)-1]
	if column(oldest, "arguments") != arguments || column(oldest, "decided_by") != "rita" || column(oldest, "decision_note") != "'=1+1" ||
		column(oldest, "created_at") != w.get("calls/"+id.String(), w.reviewer).wantStatus(t, 200)["created_at"] {
		t.Errorf("row: %q", oldest)
	}
	for i, text := range formulaTexts() {
		cell := column(rows[len(formulaTexts())-i], "message")
		first := []rune(cell)[0]
		if strings.ContainsRune("=+-@\t\r\n＝", first) {
			t.Errorf("%q begins as a formula does: %q", text, cell)
		}
		if want := strings.NewReplacer("\r", "", "\n", "\n").Replace(text); !strings.HasSuffix(strings.ReplaceAll(cell, "\r", ""), want) {
			t.Errorf("%q became %q", text, cell)
		}
	}
	events := w.get("audit?action=calls.exported", w.operator)
	list := listItems(t, events.wantStatus(t, 200))
	if len(list) != 3 || list[2].(map[string]any)["actor"].(map[string]any)["name"] != "rita" ||
		!strings.Contains(events.body, `"format": "csv"`) && !strings.Contains(events.body, `"format":"csv"`) ||
		!strings.Contains(events.body, `"skills":`) {
		t.Errorf("audit: %s", events.body)
	}
	w.get("calls/export?format=xml", w.operator).wantProblem(t, 422, "invalid_request")
	w.get("calls/export?agent=nobody", w.operator).wantProblem(t, 422, "invalid_request")
	if n := len(listItems(t, w.get("audit?action=calls.exported", w.operator).wantStatus(t, 200))); n != 3 {
		t.Errorf("a refused export was recorded: %d", n)
	}
}

// insertCalls stores many calls at once.
func (w *world) insertCalls(n int, arguments string) {
	w.t.Helper()
	_, err := w.db.Pool().Exec(w.t.Context(), `INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, gated, status, tool,
			exposed_name, pin, arguments, result)
		SELECT (lpad(to_hex(1735700000000 + n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid, $2, skills.id, 1,
			to_timestamp(1735700000 + n / 1000.0), false, 'succeeded', 'write', 'open__write', sha256(''), $3, '{"content":[]}'
		FROM skills, generate_series(1, $1::bigint) AS n WHERE skills.name = 'open'`, n, w.billing.ID, []byte(arguments))
	check(w.t, err)
}

// TestExportTakesLittleMemory is not parallel: it measures the memory of the process.
func TestExportTakesLittleMemory(t *testing.T) {
	w := newWorld(t)
	const n = 100_000
	w.insertCalls(n, `{"text":"`+strings.Repeat("x", 300)+`"}`)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	for _, format := range []string{"jsonl", "csv"} {
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		body := w.open(server, "calls/export?format="+format)
		lines, bytes, most := 0, 0, uint64(0)
		buffer := make([]byte, 1<<20)
		for next := 1; ; {
			got, err := body.Read(buffer)
			lines += strings.Count(string(buffer[:got]), "\n")
			if bytes += got; bytes > next*(4<<20) {
				next++
				var now runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
			if err == io.EOF {
				break
			}
			check(t, err)
		}
		check(t, body.Close())
		if lines < n || lines > n+1 || bytes < n*300 {
			t.Errorf("%s: %d lines, %d bytes", format, lines, bytes)
		}
		if most > before.HeapAlloc+(20<<20) {
			t.Errorf("%s: %d bytes exported with %d MiB on the heap, %d MiB before", format, bytes, most>>20, before.HeapAlloc>>20)
		}
	}
}

func (w *world) open(server *httptest.Server, path string) io.ReadCloser {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, server.URL+"/api/v1/"+path, nil)
	check(w.t, err)
	r.Header.Set("Authorization", "Bearer "+w.operator)
	response, err := server.Client().Do(r)
	check(w.t, err)
	if response.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: status %d", path, response.StatusCode)
	}
	return response.Body
}

// An export that fails on the way breaks the connection, so that no client takes a part for the whole.
func TestBrokenExportIsCutOff(t *testing.T) {
	t.Parallel()
	for format, table := range map[string]string{"calls/export?format=jsonl": "calls", "calls/export?format=csv": "calls", "audit/export": "audit_events"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.insertCalls(30_000, `{"text":"`+strings.Repeat("x", 1000)+`"}`)
			_, err := w.db.Pool().Exec(t.Context(), `INSERT INTO audit_events (subject_id, actor_kind, action, data)
				SELECT id, 'system', 'test.made', jsonb_build_object('text', repeat('x', 1000)) FROM calls`)
			check(t, err)
			server := httptest.NewServer(w.handler)
			defer server.Close()
			body := w.open(server, format)
			_, err = io.ReadFull(body, make([]byte, 1000))
			check(t, err)
			rename := func(from, to string) {
				_, err = w.db.Pool().Exec(context.WithoutCancel(t.Context()), `ALTER TABLE `+from+` RENAME TO `+to)
				check(t, err)
			}
			rename(table, "gone")
			defer rename("gone", table) // other tests get this database later
			if n, err := io.Copy(io.Discard, body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("after %d bytes: %v", n, err)
			}
		})
	}
}

func TestSearchAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	w.post("approvals/"+id.String()+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"no"}`, w.getDigest(id))).wantStatus(t, 200)
	for query, want := range map[string]string{
		"actor=rita":                                       "approval.rejected",
		"actor=billing&action=call":                        "call.parked",
		"action=approval.rejected":                         "approval.rejected",
		"action=approval":                                  "approval.rejected",
		"action=approv":                                    "",
		"actor=system&action=call":                         "",
		"subject=" + id.String() + "&action=call.parked":   "call.parked",
		"to=2020-01-01":                                    "",
		"from=2999-01-01":                                  "",
		"from=2020-01-01&to=2999-01-01&action=call.parked": "call.parked",
	} {
		v := w.get("audit?"+query, w.operator).wantStatus(t, 200)
		var actions []string
		for _, item := range listItems(t, v) {
			actions = append(actions, item.(map[string]any)["action"].(string))
		}
		if !slices.Contains(actions, want) && want != "" || want == "" && len(actions) > 0 {
			t.Errorf("%s: %v", query, actions)
		}
		for _, action := range actions {
			if strings.Contains(query, "action="+want) && action != want {
				t.Errorf("%s: %v", query, actions)
			}
		}
	}
	for _, query := range []string{"actor=nobody", "from=x", "to=x", "action=a%00", "subject=x"} {
		w.get("audit?"+query, w.operator).wantProblem(t, 422, "invalid_request")
	}
	lines := strings.Split(strings.TrimSuffix(w.get("audit/export?subject="+id.String(), w.operator).body, "\n"), "\n")
	listed, err := json.Marshal(w.get("audit?subject="+id.String(), w.operator).wantStatus(t, 200)["items"].([]any)[0])
	check(t, err)
	var one any
	check(t, json.Unmarshal([]byte(lines[0]), &one))
	exported, err := json.Marshal(one)
	check(t, err)
	if len(lines) < 2 || string(listed) != string(exported) {
		t.Errorf("exported %q, listed %s", lines, listed)
	}
	if v := w.get("audit?action=audit.exported", w.operator).wantStatus(t, 200); len(listItems(t, v)) != 1 {
		t.Errorf("audit of the export: %v", v)
	}
}
