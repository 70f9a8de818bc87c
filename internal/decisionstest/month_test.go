package decisionstest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdpoint/holdpoint/internal/decisionstest"
)

// months are enough to see what only some have.
var months = sync.OnceValue(func() (all [][]decisionstest.Decision) {
	for seed := range uint64(5) {
		all = append(all, decisionstest.Generate(seed))
	}
	return all
})

func eachMonth(t *testing.T, check func(t *testing.T, month []decisionstest.Decision)) {
	t.Helper()
	for _, month := range months() {
		check(t, month)
	}
}

func weekOf(d decisionstest.Decision) int {
	for week := 1; week <= decisionstest.Weeks; week++ {
		if d.At.Before(decisionstest.WeekStart(week + 1)) {
			return week
		}
	}
	return 0
}

func TestSameSeedGivesSameMonth(t *testing.T) {
	t.Parallel()
	first := decisionstest.Generate(7)
	if !reflect.DeepEqual(first, decisionstest.Generate(7)) {
		t.Error("two months of one seed differ")
	}
	if reflect.DeepEqual(first, decisionstest.Generate(8)) {
		t.Error("months of two seeds are equal")
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	month := decisionstest.Generate(1)
	for week := 1; week <= decisionstest.Weeks; week++ {
		before, in := decisionstest.Split(month, week)
		if joined := slices.Concat(before, in); !reflect.DeepEqual(joined, month[:len(joined)]) {
			t.Errorf("week %d: the calls are not the first ones of the month", week)
		}
		for i, d := range slices.Concat(before, in) {
			if got := weekOf(d); (i < len(before)) != (got < week) || got > week {
				t.Errorf("week %d: call of %s at %d of %d", week, d.At, i, len(before))
			}
		}
	}
	if before, in := decisionstest.Split(month, decisionstest.Weeks); len(before)+len(in) != len(month) {
		t.Errorf("%d calls before week 4 and %d in it, want %d in all", len(before), len(in), len(month))
	}
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		outcomes, tools, agents := map[decisionstest.Outcome]int{}, map[string]int{}, map[string]int{}
		weeks, weekends, nights, alone := map[int]int{}, 0, 0, 0
		for i, d := range month {
			at := d.At.In(decisionstest.Zone())
			outcomes[d.Outcome]++
			tools[d.Skill+"."+d.Tool]++
			agents[d.Agent]++
			weeks[weekOf(d)]++
			if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
				weekends++
			}
			if at.Hour() < 6 {
				nights++
			}
			if d.Principal == "" {
				alone++
			}
			if i > 0 && d.At.Before(month[i-1].At) {
				t.Errorf("call %d is before the previous one", i)
			}
		}
		share := func(name string, part int, low, high float64) {
			if got := float64(part) / float64(len(month)); got < low || got > high {
				t.Errorf("%s: %.3f of calls, want %.3f to %.3f", name, got, low, high)
			}
		}
		if len(month) < 4000 || len(month) > 8000 {
			t.Errorf("%d calls", len(month))
		}
		share("approved as they are or edited", outcomes[decisionstest.Approved]+outcomes[decisionstest.Edited], 0.90, 0.95)
		share("edited", outcomes[decisionstest.Edited], 0.005, 0.04)
		share("expired", outcomes[decisionstest.Expired], 0.02, 0.06)
		share("rejected", outcomes[decisionstest.Rejected], 0.015, 0.04)
		share("weekends", weekends, 0.06, 0.20)
		share("nights", nights, 0.10, 0.30)
		share("for nobody", alone, 0.3, 0.6)
		for week := 1; week <= decisionstest.Weeks; week++ {
			share("a week", weeks[week], 0.21, 0.29)
		}
		for _, agent := range []string{"support", "billing", "ops", "marketing", "nightly", "people"} {
			share(agent, agents[agent], 0.01, 0.60)
		}
		var counts []int
		for _, n := range tools {
			counts = append(counts, n)
		}
		slices.Sort(counts)
		slices.Reverse(counts)
		share("the six busiest tools", sum(counts[:6]), 0.50, 0.70)
		share("the ten rarest tools", sum(counts[len(counts)-10:]), 0.01, 0.12)
		for _, tool := range decisionstest.Tools() {
			if tools[tool.Skill+"."+tool.Name] == 0 {
				t.Errorf("no call of %s.%s", tool.Skill, tool.Name)
			}
		}
	})
}

func sum(counts []int) (all int) {
	for _, n := range counts {
		all += n
	}
	return all
}

var oldPrices = []float64{9.9, 14.9, 19.5, 24, 34.9, 44.9, 59, 79.9, 129, 149, 219, 389}

func TestDrift(t *testing.T) {
	t.Parallel()
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		seen := map[string]map[int]bool{}
		see := func(what string, d decisionstest.Decision) {
			if d.Outcome != decisionstest.Rejected {
				if seen[what] == nil {
					seen[what] = map[int]bool{}
				}
				seen[what][weekOf(d)] = true
			}
		}
		for _, d := range month {
			arguments := string(d.Arguments)
			for _, part := range []string{"Skyline Print", "/srv/reports/", "/srv/reporting/", "altaquota.example", "autumn-sale-"} {
				if strings.Contains(arguments, part) && d.Tool != "pause_campaign" {
					see(part, d)
				}
			}
			if d.Tool == "update_price" {
				var price struct{ Price float64 }
				if err := json.Unmarshal(d.Arguments, &price); err != nil {
					t.Fatal(err)
				}
				see(fmt.Sprint("old price ", slices.Contains(oldPrices, price.Price)), d)
			}
			see(d.Tool, d)
			see(d.Principal, d)
		}
		for what, want := range map[string][]int{
			"Skyline Print": {3, 4}, "/srv/reports/": {1, 2, 3}, "/srv/reporting/": {3, 4}, "altaquota.example": {3, 4}, "autumn-sale-": {1, 2},
			"old price true": {1, 2}, "old price false": {3, 4},
			"merge_tickets": {4}, "create_return_label": {4}, "pause_campaign": {4},
			"sofia.rossi@fjordgear.example": {2, 3, 4}, "noah.schmidt@fjordgear.example": {1, 2, 3},
		} {
			for week := 1; week <= decisionstest.Weeks; week++ {
				if seen[what][week] != slices.Contains(want, week) {
					t.Errorf("%s: weeks %v, want %v", what, seen[what], want)
				}
			}
		}
	})
}

func TestEveryKindIsPlanted(t *testing.T) {
	t.Parallel()
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		before, in := decisionstest.Split(month, decisionstest.Weeks)
		for _, kind := range decisionstest.Kinds() {
			isOfKind := func(d decisionstest.Decision) bool { return d.Planted == kind.Name }
			if slices.ContainsFunc(before, isOfKind) == kind.New {
				t.Errorf("%s: in weeks 1 to 3 is %v", kind.Name, kind.New)
			}
			if !slices.ContainsFunc(in, isOfKind) {
				t.Errorf("%s: not in week 4", kind.Name)
			}
			// A kind that is not new gave a warning with the same tool.
			for _, d := range in {
				if isOfKind(d) && !kind.New && !slices.ContainsFunc(before, func(b decisionstest.Decision) bool { return isOfKind(b) && b.Tool == d.Tool }) {
					t.Errorf("%s: in week 4 with %s, but not before", kind.Name, d.Tool)
				}
			}
		}
		for _, d := range month {
			if (d.Planted != "") != (d.Outcome == decisionstest.Rejected) {
				t.Errorf("%s: %s, planted %q", d.Tool, d.Outcome, d.Planted)
			}
		}
	})
}

// TestFrozenCallWasUsual shows the value that is approved 40 times and rejected once.
func TestFrozenCallWasUsual(t *testing.T) {
	t.Parallel()
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		approved, rejected := 0, []int(nil)
		for _, d := range month {
			if d.Tool != "restart_service" || !strings.Contains(string(d.Arguments), `"checkout"`) || !strings.Contains(string(d.Arguments), `"production"`) {
				continue
			}
			switch d.Outcome {
			case decisionstest.Rejected:
				rejected = append(rejected, weekOf(d))
				if approved < 40 {
					t.Errorf("rejected after %d approvals", approved)
				}
			case decisionstest.Approved:
				approved++
			case decisionstest.Edited, decisionstest.Expired:
			}
		}
		if !slices.Equal(rejected, []int{2, 4}) {
			t.Errorf("rejected in weeks %v", rejected)
		}
	})
}

func TestArgumentsMatchSchemas(t *testing.T) {
	t.Parallel()
	type version struct {
		tool   decisionstest.Tool
		schema *jsonschema.Schema
	}
	versions := map[[32]byte]version{}
	for _, tool := range decisionstest.Tools() {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(tool.InputSchema))
		if err != nil {
			t.Fatal(tool.Name, err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("schema.json", doc); err != nil {
			t.Fatal(tool.Name, err)
		}
		schema, err := compiler.Compile("schema.json")
		if err != nil {
			t.Fatal(tool.Name, err)
		}
		if _, ok := versions[tool.Pin()]; ok {
			t.Errorf("%s: two definitions with one pin", tool.Name)
		}
		versions[tool.Pin()] = version{tool, schema}
	}
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		used := map[[32]byte]bool{}
		for _, d := range month {
			v, ok := versions[d.Pin]
			used[d.Pin] = true
			if !ok || v.tool.Skill != d.Skill || v.tool.Name != d.Tool || d.At.Before(v.tool.Since) {
				t.Fatalf("%s.%s: pin of %s.%s since %s", d.Skill, d.Tool, v.tool.Skill, v.tool.Name, v.tool.Since)
			}
			for _, arguments := range []json.RawMessage{d.Arguments, d.EditedArguments} {
				if arguments == nil {
					continue
				}
				var compact bytes.Buffer
				if err := json.Compact(&compact, arguments); err != nil || !bytes.Equal(compact.Bytes(), arguments) {
					t.Fatalf("%s: %v, or with white space: %s", d.Tool, err, arguments)
				}
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
				if err != nil {
					t.Fatal(d.Tool, err)
				}
				isOfWrongType := d.Planted == "number-as-text" && d.Tool == "refund"
				if err := v.schema.Validate(value); (err != nil) != isOfWrongType {
					t.Errorf("%s, planted %q: %v: %s", d.Tool, d.Planted, err, arguments)
				}
			}
		}
		for pin, v := range versions {
			if !used[pin] {
				t.Errorf("no call of %s.%s since %s", v.tool.Skill, v.tool.Name, v.tool.Since)
			}
		}
	})
}

// TestRejectionsLookLikeOtherCalls compares what a rule does not speak of.
func TestRejectionsLookLikeOtherCalls(t *testing.T) {
	t.Parallel()
	order := map[string][]string{}
	for _, tool := range decisionstest.Tools() {
		order[tool.Name] = memberNames(t, json.RawMessage(tool.InputSchema), "properties")
	}
	planted, unordered := map[string]int{}, map[string]int{} // by kind, in all months
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		type looks struct{ calls, unordered, escaped, fast int }
		var rejected, other looks
		deciders := map[string]map[string]bool{}
		for _, d := range month {
			if deciders[d.Tool] == nil {
				deciders[d.Tool] = map[string]bool{}
			}
			of := &other
			switch d.Outcome {
			case decisionstest.Rejected:
				of = &rejected
			case decisionstest.Approved:
				deciders[d.Tool][d.DecidedBy] = true
			case decisionstest.Edited, decisionstest.Expired:
			}
			if (d.DecidedBy == "") != (d.Outcome == decisionstest.Expired) || d.DecidedBy != "" && d.DecidedBy == d.Principal {
				t.Errorf("%s for %s: decided by %q", d.Tool, d.Principal, d.DecidedBy)
			}
			if wait := d.DecidedAt.Sub(d.At); wait <= 0 || wait > 12*time.Hour {
				t.Errorf("%s: decided after %s", d.Tool, wait)
			}
			if d.ID.Version() != 4 || d.Agent == "" || d.At.Location() != time.UTC {
				t.Errorf("%s: id %s, agent %q, at %s", d.Tool, d.ID, d.Agent, d.At)
			}
			if d.Reason != "" && d.Outcome != decisionstest.Rejected {
				t.Errorf("%s: %s for the reason %q", d.Tool, d.Outcome, d.Reason)
			}
			if (d.EditedArguments != nil) != (d.Outcome == decisionstest.Edited) || bytes.Equal(d.EditedArguments, d.Arguments) {
				t.Errorf("%s: %s with edited arguments %s", d.Tool, d.Outcome, d.EditedArguments)
			}
			for _, word := range []string{"plant", "reject", "approve", "suspicious", "evil", "attack", "malicious"} {
				if strings.Contains(strings.ToLower(string(d.Arguments)), word) {
					t.Errorf("%s: %q in %s", d.Tool, word, d.Arguments)
				}
			}
			of.calls++
			names := memberNames(t, d.Arguments, "")
			if !slices.IsSortedFunc(names, func(a, b string) int { return slices.Index(order[d.Tool], a) - slices.Index(order[d.Tool], b) }) {
				of.unordered++
				unordered[d.Planted]++
			}
			planted[d.Planted]++
			if bytes.Contains(d.Arguments, []byte(`\u00`)) {
				of.escaped++
			}
			if d.DecidedAt.Sub(d.At) < 5*time.Minute {
				of.fast++
			}
		}
		for _, d := range month {
			if d.Outcome == decisionstest.Rejected && len(deciders[d.Tool]) > 2 && !deciders[d.Tool][d.DecidedBy] {
				t.Errorf("%s: rejected by %s, who approves none", d.Tool, d.DecidedBy)
			}
		}
		for name, l := range map[string]looks{"rejected": rejected, "other": other} {
			for part, bounds := range map[string][3]int{"unordered": {l.unordered, 1, 15}, "escaped": {l.escaped, 0, 8}, "fast": {l.fast, 30, 70}} {
				if got := 100 * bounds[0] / l.calls; got < bounds[1] || got > bounds[2] {
					t.Errorf("%s calls, %s: %d %%, want %d to %d", name, part, got, bounds[1], bounds[2])
				}
			}
		}
	})
	for kind, calls := range planted {
		if 100*unordered[kind]/calls > 33 {
			t.Errorf("%q: %d of %d calls have members in an unusual order", kind, unordered[kind], calls)
		}
	}
}

// memberNames returns the names of an object's members in their order, or of one of its members.
func memberNames(t *testing.T, text json.RawMessage, of string) []string {
	t.Helper()
	if of != "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		text = members[of]
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.Token()
	var names []string
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
	}
	return names
}
