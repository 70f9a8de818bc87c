package cli_test

import (
	"regexp"
	"strings"
	"testing"
)

func TestSkillListTellsTeamsAndOAuth(t *testing.T) {
	t.Parallel()
	const health = `"health":{"status":"ok"}`
	f := newFake(t).setAnswer("GET /api/v1/skills", `{"items":[
		{"name":"a","url":"http://a/","connection":"shared","oauth":null,`+health+`},
		{"name":"b","url":"http://b/","connection":"shared","team":"ops","escalate_to":"leads","oauth":{"grant":"client_credentials"},`+health+`},
		{"name":"c","url":"http://c/","connection":"per_user","team":null,"escalate_to":"leads","oauth":null,`+health+`},
		{"name":"d","url":"http://d/","connection":"per_user","oauth":{"grant":"enterprise_managed"},`+health+`}],"next_cursor":null}`)
	rows := strings.Split(strings.TrimSpace(f.run("skill", "list").wantCode(t, 0).stdout), "\n")
	want := []string{"TEAM/OAUTH", "-/-", "ops, later leads/client_credentials", "later leads/per user", "-/enterprise_managed, per user"}
	if len(rows) != len(want) {
		t.Fatalf("got %q", rows)
	}
	columns := regexp.MustCompile(` {2,}`)
	for i, row := range rows {
		if cells := columns.Split(row, -1); len(cells) != 7 || cells[4]+"/"+cells[5] != want[i] {
			t.Errorf("row %d: %q, want %s", i, cells, want[i])
		}
	}
}
