package suggest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/suggest"
	"github.com/holdpoint/holdpoint/internal/decisionstest"
)

func nameID(name string) uuid.UUID {
	if name == "" {
		return uuid.Nil
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(name))
}

func toCalls(decisions []decisionstest.Decision) []suggest.Call {
	var calls []suggest.Call
	for _, d := range decisions {
		c := suggest.Call{
			ID: d.ID, AgentID: nameID(d.Agent), PrincipalID: nameID(d.Principal), SkillID: nameID(d.Skill), Tool: d.Tool, Pin: d.Pin,
			Arguments: d.Arguments, DecidedAt: d.DecidedAt, DecidedBy: nameID(d.DecidedBy),
		}
		switch d.Outcome {
		case decisionstest.Approved:
		case decisionstest.Edited:
			c.Outcome = suggest.Edited
		case decisionstest.Rejected:
			c.Outcome = suggest.Rejected
		case decisionstest.Expired:
			continue
		}
		calls = append(calls, c)
	}
	return calls
}

// Suggestions from three weeks of decisions, judged on the fourth: they let no call pass that was rejected or edited then, in any month, and shorten the
// queue. The goal was 60 %. More than half of the other calls are of agents and tools with rejections that no grant can tell from approvals: links in texts,
// statements, duplicates, days without changes; or of tools that are new in the fourth week.
func TestMonth(t *testing.T) {
	t.Parallel()
	const months, wantShare = 20, 0.36
	waited, passed := 0, 0
	for seed := range uint64(months) {
		before, in := decisionstest.Split(decisionstest.Generate(seed), decisionstest.Weeks)
		// A decision that fell into the fourth week was not known at its beginning.
		before = slices.DeleteFunc(before, func(d decisionstest.Decision) bool {
			return !d.DecidedAt.Before(decisionstest.WeekStart(decisionstest.Weeks))
		})
		found, err := suggest.Find(t.Context(), toCalls(before))
		if err != nil {
			t.Fatal(err)
		}
		var grants []grant.Grant
		for _, s := range found {
			grants = append(grants, grant.Grant{ID: s.CallID, Spec: s.Spec})
		}
		book := grant.NewBook(grants)
		for _, d := range in {
			waited++
			of := grant.Spec{AgentID: nameID(d.Agent), PrincipalID: nameID(d.Principal), SkillID: nameID(d.Skill), Tool: d.Tool, Pin: d.Pin}
			if len(book.Find(&of, d.Arguments)) == 0 {
				continue
			}
			passed++
			if d.Outcome == decisionstest.Rejected || d.Outcome == decisionstest.Edited {
				t.Errorf("month %d: a call passes that was %s (%s): %s %s for %q: %s", seed, d.Outcome, d.Planted, d.Agent, d.Tool, d.Principal, d.Arguments)
			}
		}
	}
	share := float64(passed) / float64(waited)
	t.Logf("%.1f %% of %d calls pass", 100*share, waited)
	if share < wantShare {
		t.Errorf("%.1f %% of the calls pass, want %.0f %%", 100*share, 100*wantShare)
	}
}

// history makes decisions about calls of one tool, six hours apart.
type history struct{ calls []suggest.Call }

func (h *history) add(outcome suggest.Outcome, arguments ...string) *history {
	for _, text := range arguments {
		n := len(h.calls)
		h.calls = append(h.calls, suggest.Call{
			ID: nameID(fmt.Sprint("call ", n)), AgentID: nameID("support"), SkillID: nameID("mail"), Tool: "send", Arguments: json.RawMessage(text), Outcome: outcome,
			DecidedAt: time.Date(2026, 10, 1, 6*n, 0, 0, 0, time.UTC), DecidedBy: nameID(fmt.Sprint("reviewer ", n%2)),
		})
	}
	return h
}

// repeat adds approved calls; %d is their number and %s a word.
func (h *history) repeat(times int, format string) *history {
	for n := range times {
		h.add(suggest.Approved, strings.NewReplacer("%d", strconv.Itoa(100+37*n%61), "%s", fmt.Sprintf("Dear customer %c%c, thank you", 'a'+n%26, 'a'+n/26)).Replace(format))
	}
	return h
}

// Each history gives the grants that its decisions prove, and no wider ones.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		decided *history
		want    []string
	}{
		"the same":                             {new(history).repeat(12, `{"to":"a","n":5}`), []string{"n is from 5 to 5, to is \"a\""}},
		"one approval":                         {new(history).add(suggest.Approved, `{"to":"a"}`), nil},
		"prose":                                {new(history).repeat(30, `{"to":"a@example.com","body":"%s"}`), []string{`body is anything, to is "a@example.com"`}},
		"statements":                           {new(history).repeat(30, `{"sql":"SELECT '%s'"}`), nil},
		"prose that was rejected":              {new(history).repeat(30, `{"to":"a","body":"%s"}`).add(suggest.Rejected, `{"to":"a","body":"Click on this link now"}`), nil},
		"prose that was edited":                {new(history).repeat(30, `{"to":"a","body":"%s"}`).add(suggest.Edited, `{"to":"a","body":"Dear you"}`), nil},
		"another value was rejected":           {new(history).repeat(30, `{"to":"a","body":"%s"}`).add(suggest.Rejected, `{"to":"z","body":"Dear you"}`), []string{`body is anything, to is "a"`}},
		"a value that was approved too rarely": {new(history).repeat(10, `{"to":"a"}`).add(suggest.Approved, `{"to":"b"}`, `{"to":"b"}`), []string{`to is "a"`}},
		"a range without its ends":             {new(history).repeat(40, `{"n":%d}`), []string{"n is from 101 to 158"}},
		"two values never together": {
			new(history).repeat(8, `{"a":"x","b":"1"}`).repeat(8, `{"a":"y","b":"2"}`).repeat(4, `{"a":"x","b":"1"}`), []string{`a is "x", b is "1"`},
		},
		"the same arguments were rejected": {new(history).repeat(20, `{"to":"a"}`).add(suggest.Rejected, `{"to":"a"}`), nil},
		"unreadable":                       {new(history).repeat(20, `{"to":"a"}`).add(suggest.Rejected, ``), nil},
		"names that only look like prose":  {new(history).repeat(30, `{"path":"reports/%d.csv"}`), nil},
		"folders": {
			new(history).repeat(30, `{"path":"/srv/www/site/%d.html"}`), []string{`path is below "/srv/www/site"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := suggest.Find(t.Context(), tc.decided.calls)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range found {
				got = append(got, grant.Describe(s.Arguments))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("suggested %q, want %q", got, tc.want)
			}
		})
	}
}

// The figures and the sentence of a suggestion.
func TestDescribe(t *testing.T) {
	t.Parallel()
	h := new(history).repeat(47, `{"to":"a@example.com","body":"%s"}`).add(suggest.Rejected, `{"to":"b@evil.example","body":"Dear you, thank you"}`)
	found, err := suggest.Find(t.Context(), h.calls)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d suggestions, %v", len(found), err)
	}
	s := found[0]
	if got := s.Describe("support"); got != "47 of 47 calls of send by support like this were approved; only body varied" {
		t.Error(got)
	}
	if s.Covered != 47 || s.Approved != 47 || s.Refused != 1 || s.Deciders != 2 || s.CallID != nameID("call 46") || string(s.Example) != string(h.calls[46].Arguments) {
		t.Errorf("%+v", s)
	}
}
