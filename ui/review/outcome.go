package review

import (
	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// presentOutcome presents the result of a call that was or was to be sent. It returns nil while the decision says everything.
func presentOutcome(s *subject) *Outcome {
	c := &s.call
	o := &Outcome{Level: present.StatusBadge(c.Status).Level, Text: present.DescribeOutcome(c)}
	if c.Failure != tool.ToolError {
		o.Message = c.Message
	}
	switch c.Status {
	case call.Parked, call.NeedsConnection, call.Rejected:
		return nil
	case call.Expired, call.Cancelled:
		if s.approval != nil && s.approval.Status != approval.Approved {
			return nil // the decision says it
		}
	default:
	}
	if c.Status.Final() {
		o.Text = text.Join(" ", o.Text, countQuestions(s.questions))
	}
	if c.ContentDeletedAt != nil {
		o.Text = text.Join(" ", o.Text, text.ReviewContentDeleted())
	}
	if len(c.Result) > 0 {
		o.RawURL = present.CallURL(c.ID) + "/result"
		presentResult(o, c)
	}
	if len(c.Late) > 0 {
		if late, err := hostile.ReadPretty(c.Late, hostile.Folded()); err == nil {
			o.Late = &late
		} else {
			o.LateRaw = present.Folded(c.Late)
		}
	}
	if r := c.Resolution; r != nil {
		o.Resolution = &view.Decision{Word: present.DescribeResolution(r.Outcome), By: present.PersonName(r.By, s.names), At: r.At, Note: r.Note}
	}
	return o
}

// countQuestions counts the questions of the call's server and the answers that it got. It is empty if there were none.
func countQuestions(questions []call.AskedQuestion) text.Message {
	if len(questions) == 0 {
		return text.Message{}
	}
	approved, unreviewed := 0, 0
	for i := range questions {
		switch q := &questions[i]; {
		case q.Status != call.QuestionAnswered:
		case q.Review == call.ReviewNone:
			unreviewed++
		default:
			approved++
		}
	}
	return text.ReviewServerQuestions(len(questions), approved, unreviewed)
}

func presentResult(o *Outcome, c *call.Call) {
	if c.Failure != tool.JSONRPCError {
		if result, err := hostile.ReadResult(c.Result, hostile.Folded()); err == nil && (len(result.Blocks) > 0 || result.Structured != nil) {
			o.Result = &result
			return
		}
	}
	if pretty, err := hostile.ReadPretty(c.Result, hostile.Folded()); err == nil {
		o.Result = &hostile.Result{Structured: &pretty}
		return
	}
	o.Raw = present.Folded(c.Result)
}

// presentTiming returns nil if nothing was measured.
func presentTiming(m *call.Measures) *Timing {
	if m == nil {
		return nil
	}
	t := &Timing{Table: view.DataTable{Caption: text.ReviewTimingCaption(), Head: []text.Message{text.ReviewTimingStep(), text.ReviewTimingTime()}}}
	for i, step := range call.PipelineSteps() {
		if m.Took[i] > 0 {
			t.Table.Rows = append(t.Table.Rows, view.DataRow{Name: present.NameStep(step), Cells: []text.Message{present.FormatShortDuration(m.Took[i])}})
		}
	}
	sent, received := present.FormatSize(m.Sent), present.FormatSize(m.Received)
	switch {
	case !m.Exchanged():
	case m.HTTPStatus > 0:
		t.Says = text.ReviewExchangedHTTP(present.HTTPStatusWords(m.HTTPStatus), sent, received)
	default:
		t.Says = text.ReviewExchanged(sent, received)
	}
	return t
}
