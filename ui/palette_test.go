package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// hits returns the results of a search as "kind name" by their address.
func (v *visitor) hits(typed string) map[string]string {
	v.w.t.Helper()
	a := v.get("/search?q=" + url.QueryEscape(typed))
	if a.status != http.StatusOK {
		v.w.t.Fatalf("search for %q: %d", typed, a.status)
	}
	found := map[string]string{}
	for _, hit := range a.find("hit").EachIter() {
		found[hit.AttrOr("href", "")] = strings.Join(strings.Fields(hit.Text()), " ")
	}
	return found
}

func TestPaletteFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	w.someone("Zelda Fitz")
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	digits := strings.ReplaceAll(id.String(), "-", "")
	for _, typed := range []string{id.String(), strings.ToUpper(id.String()), digits, "…" + digits[26:], digits[24:]} {
		if got := rita.hits(typed)[callPath(id)]; !strings.HasPrefix(got, "Call files: save_csv") {
			t.Errorf("%q finds %q", typed, got)
		}
	}
	if got := rita.hits(digits[27:]); got[callPath(id)] != "" {
		t.Errorf("5 digits find %v", got)
	}
	if !strings.Contains(rita.get("/search?q="+uuid.NewString()).text(), "among the newest calls") {
		t.Error("an unknown id is not explained")
	}
	agents := "/agents/" + w.agent.ID.String()
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	skills := skill.ID.String()
	for _, tt := range []struct{ typed, path, want string }{
		{"SAVE", "/skills/" + skills + "/tools?tool=save_csv", "Tool save_csv files"},
		{"file", "/skills/" + skills, "Skill files"},
		{"bill", agents, "Agent billing"},
		{"insi", "/insights", "Page Insights"},
		{"next", "/", "Action Open the next call"},
	} {
		if got := rita.hits(tt.typed)[tt.path]; got != tt.want {
			t.Errorf("%s finds %q, want %q", tt.typed, got, tt.want)
		}
	}
	zelda := "/members/" + w.personCalled("Zelda Fitz").String()
	if got := olga.hits("zelda")[zelda]; got != "Person Zelda Fitz" {
		t.Errorf("operators find %q", got)
	}
	if got := rita.hits("zelda"); len(got) != 0 {
		t.Errorf("reviewers find %v", got)
	}
	if rita.hits("")["/members"] != "" || olga.hits("")["/members"] == "" {
		t.Error("the page of members is for operators")
	}
	if got := rita.hits("%"); len(got) != 0 {
		t.Errorf("%% finds %v", got)
	}
}

// Tools of deleted skills and tools that are no longer offered are not found, and no kind fills the list.
func TestPaletteIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(`INSERT INTO skill_tools (skill_id, name, current_pin)
		SELECT skill_id, 'zz_' || n, current_pin FROM (SELECT skill_id, current_pin FROM skill_tools LIMIT 1) one, generate_series(1, 30) n`)
	rita := w.signedIn("rita", identity.Reviewer)
	if got := len(rita.hits("zz_")); got != 8 {
		t.Errorf("%d tools found", got)
	}
	w.db.Exec(`UPDATE skill_tools SET removed_at = now() WHERE name LIKE 'zz%' AND name <> 'zz_7'`)
	if got := len(rita.hits("zz_")); got != 1 {
		t.Errorf("%d offered tools found", got)
	}
	// The end of an id is compared with the newest 1,000 calls only.
	id := w.submit(uuid.Nil, "files__save_csv", `{}`)
	end := strings.ReplaceAll(id.String(), "-", "")[24:]
	w.db.Exec(`INSERT INTO calls SELECT (jsonb_populate_record(c, jsonb_build_object('id', overlay(gen_random_uuid()::text PLACING 'ffffffff-ffff' FROM 1)))).*
		FROM calls c, generate_series(1, 1000) WHERE c.id = $1`, id)
	if got := rita.hits(end); got[callPath(id)] != "" {
		t.Error("the end of an id finds an old call")
	}
	if got := rita.hits(id.String()); got[callPath(id)] == "" {
		t.Error("an id does not find an old call")
	}
}
