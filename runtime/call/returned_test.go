package call_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// answerWith makes the server answer with this content.
func (w *world) answerWith(content string, isError bool) {
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		if isError {
			return tool.Result{Raw: json.RawMessage(`{"isError":true,"content":` + content + `}`), IsError: true}, nil
		}
		return tool.Result{Raw: json.RawMessage(`{"content":` + content + `}`)}, nil
	})
}

func (w *world) listReturned(viewer call.Viewer, conversation uuid.UUID, uri string) []uuid.UUID {
	w.t.Helper()
	skills, err := w.calls.FindReturningSkills(w.t.Context(), viewer, conversation, uri)
	check(w.t, err)
	return skills
}

func TestWhatFinishedCallsReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answerWith(`[{"type":"resource_link","name":"n","uri":"file:\/\/\u002fa"},{"type":"resource","resource":{"uri":"file:///b","text":"t"}},
		{"type":"resource_link","uri":"file:///a"},{"type":"text","text":"\"type\":\"resource_link\",\"uri\":\"file:///c\""},
		{"type":"text","uri":"file:///d"},{"type":"resource","uri":"file:///e","resource":{}},{"type":"Resource_link","uri":"file:///f"}]`, false)
	s := w.newSubmission("files__write", `{"n":1}`)
	ticket, err := w.calls.Submit(t.Context(), s)
	check(t, err)
	viewer := call.Viewer{AgentID: w.agent.ID}
	if got := w.listReturned(viewer, s.ConversationID, "file:///a"); len(got) > 0 {
		t.Errorf("before the decision: %v", got)
	}
	check(t, w.decide(ticket.ID, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Fatalf("%+v", c)
	}
	want := []uuid.UUID{s.Entry.SkillID}
	for _, uri := range []string{"file:///a", "file:///b"} {
		if got := w.listReturned(viewer, s.ConversationID, uri); !slices.Equal(got, want) {
			t.Errorf("%s: %v", uri, got)
		}
	}
	for _, uri := range []string{"file:///c", "file:///d", "file:///e", "file:///f", "file:///A", "file:///a/", "file:///", ""} {
		if got := w.listReturned(viewer, s.ConversationID, uri); len(got) > 0 {
			t.Errorf("%s: %v", uri, got)
		}
	}
	other := w.newSubmission("files__write", `{"n":1}`).ConversationID
	for name, got := range map[string][]uuid.UUID{
		"another conversation": w.listReturned(viewer, other, "file:///a"),
		"no conversation":      w.listReturned(viewer, uuid.Nil, "file:///a"),
		"another agent":        w.listReturned(call.Viewer{AgentID: uuid.New()}, s.ConversationID, "file:///a"),
		"another principal":    w.listReturned(call.Viewer{AgentID: w.agent.ID, PrincipalID: uuid.New()}, s.ConversationID, "file:///a"),
	} {
		if len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatOpensNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := call.Viewer{AgentID: w.agent.ID}
	long := strings.Repeat("x", 9000)
	for name, tc := range map[string]struct {
		content string
		isError bool
	}{
		"an error":         {`[{"type":"resource_link","uri":"file:///a"}]`, true},
		"not a list":       {`{"type":"resource_link","uri":"file:///a"}`, false},
		"a name twice":     {`[{"type":"text","type":"resource_link","uri":"file:///a"}]`, false},
		"other letters":    {`[{"Type":"resource_link","URI":"file:///a"}]`, false},
		"not text":         {`[{"type":"resource_link","uri":["file:///a"]}]`, false},
		"a URI so long":    {`[{"type":"resource_link","uri":"` + long + `"}]`, false},
		"other content":    {`[{"type":"text","text":"a resource: file:///a"}]`, false},
		"no content there": {`null`, false},
	} {
		w.answerWith(tc.content, tc.isError)
		s := w.newSubmission("open__echo", `{"n":"`+name+`"}`)
		ticket, err := w.calls.Submit(t.Context(), s)
		check(t, err)
		w.waitForEnd(ticket.ID)
		for _, uri := range []string{"file:///a", long, ""} {
			if got := w.listReturned(viewer, s.ConversationID, uri); len(got) > 0 {
				t.Errorf("%s: %.20s: %v", name, uri, got)
			}
		}
	}
}

// Calls that return the same resources in another order must not deadlock.
func TestReturnedAreWrittenInOneOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const many = 50
	links := make([]string, many)
	for i := range links {
		links[i] = fmt.Sprintf(`{"type":"resource_link","name":"n","uri":"file:///%d"}`, i)
	}
	w.answerWith("["+strings.Join(links, ",")+"]", false)
	ticket, err := w.calls.Submit(t.Context(), w.newSubmission("open__write", `{"n":1}`))
	check(t, err)
	w.waitForEnd(ticket.ID)
	rows, err := w.db.Pool().Query(t.Context(), `SELECT uri_hash FROM call_resources ORDER BY ctid`)
	check(t, err)
	hashes, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	check(t, err)
	if len(hashes) != many || !slices.IsSortedFunc(hashes, bytes.Compare) {
		t.Errorf("%d hashes were written, sorted: %t", len(hashes), slices.IsSortedFunc(hashes, bytes.Compare))
	}
}
