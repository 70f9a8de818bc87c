package call

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

var update = flag.Bool("update", false, "write the transitions into docs/design.md")

// TestTransitions: the state machine matches its diagram and table in docs/design.md and the database's CHECK.
func TestTransitions(t *testing.T) {
	t.Parallel()
	statuses := map[Status]bool{}
	for _, row := range transitions() {
		for _, status := range append(slices.Clone(row.from), row.to...) {
			statuses[status] = true
		}
		for _, to := range row.to {
			if row.auditAction(to).About() != "call" {
				t.Errorf("%s records %s, which package audit does not know", row.event, row.auditAction(to))
			}
		}
		for _, from := range row.from {
			if from.Final() {
				t.Errorf("%s leads away from %s, which is final", row.event, from)
			}
		}
	}
	var check string
	err := postgrestest.New(t).Pool().QueryRow(t.Context(), `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'calls_status_check'`).Scan(&check)
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, match := range regexp.MustCompile(`'(\w+)'`).FindAllStringSubmatch(check, -1) {
		allowed = append(allowed, match[1])
	}
	var known []string
	for status := range maps.Keys(statuses) {
		known = append(known, string(status))
	}
	slices.Sort(allowed)
	slices.Sort(known)
	if !slices.Equal(known, allowed) {
		t.Errorf("the transitions know the statuses %v, the database %v", known, allowed)
	}

	const file, begin, end = "../../docs/design.md", "<!-- transitions -->\n", "<!-- end of transitions -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no section on transitions", file)
	}
	want := drawDiagram() + writeTable()
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if shown != want {
		t.Errorf("%s is out of date: run go generate ./runtime/call", file)
	}
}

// drawDiagram renders the state machine as a Mermaid diagram.
func drawDiagram() string {
	edges := map[[2]string][]string{}
	var order [][2]string
	for _, row := range transitions() {
		from := row.from
		if len(from) == 0 {
			from = []Status{"[*]"}
		}
		for _, from := range from {
			for _, to := range row.to {
				edge := [2]string{string(from), string(to)}
				if edges[edge] == nil {
					order = append(order, edge)
				}
				edges[edge] = append(edges[edge], string(row.event))
			}
		}
	}
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, edge := range order {
		fmt.Fprintf(&b, "    %s --> %s : %s\n", edge[0], edge[1], strings.Join(edges[edge], ", "))
	}
	b.WriteString("```\n\n")
	return b.String()
}

func writeTable() string {
	var b strings.Builder
	b.WriteString("| event | from | to | audit action | callbacks |\n|---|---|---|---|---|\n")
	for _, row := range transitions() {
		from := joinStatuses(row.from)
		switch {
		case from == "":
			from = "(new)"
		case row.claim == thisInstance:
			from += " (claimed by this instance)"
		case row.claim == noInstance:
			from += " (claimed by no instance)"
		}
		var actions, told []string
		for _, to := range row.to {
			if action := "`" + string(row.auditAction(to)) + "`"; !slices.Contains(actions, action) {
				actions = append(actions, action)
			}
			for _, kind := range row.happeningKinds(to) {
				if kind := "`" + string(kind) + "`"; !slices.Contains(told, kind) {
					told = append(told, kind)
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.event, from, joinStatuses(row.to), strings.Join(actions, ", "), strings.Join(told, ", "))
	}
	return b.String()
}

func joinStatuses(list []Status) string {
	words := make([]string, len(list))
	for i, status := range list {
		words[i] = string(status)
	}
	return strings.Join(words, ", ")
}
