package queue

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/ui/present"
)

const questionWindow = 100 // pending questions on the queue page

// readQuestionState returns a text that changes with the list of questions that wait for a reviewer.
func (h *Handler) readQuestionState(ctx context.Context) (string, error) {
	list, err := h.calls.ListPendingQuestions(ctx, questionWindow)
	if err != nil || len(list) == 0 {
		return "", err
	}
	sum := fnv.New64a()
	for i := range list {
		_, _ = sum.Write(strconv.AppendInt(list[i].CallID[:], int64(list[i].Number), 10)) // never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// readPendingQuestions reads and presents the questions that wait for a reviewer.
func (h *Handler) readPendingQuestions(ctx context.Context, now time.Time) ([]PendingQuestion, error) {
	list, err := h.calls.ListPendingQuestions(ctx, questionWindow)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].CallID
	}
	calls, err := h.calls.ListCalls(ctx, ids)
	if err != nil {
		return nil, err
	}
	people := make([]uuid.UUID, 0, len(calls))
	for _, c := range calls {
		people = append(people, c.PrincipalID)
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	rows := make([]PendingQuestion, len(list))
	for i := range list {
		q, c := &list[i], calls[list[i].CallID]
		rows[i] = PendingQuestion{
			ID: fmt.Sprintf("%s-%d", q.CallID, q.Number), URL: present.CallURL(q.CallID) + "#question-" + strconv.Itoa(q.Number),
			Skill: c.Skill, Tool: c.Tool, Agent: c.Agent, Principal: present.PersonName(c.PrincipalID, names), Kind: present.DescribeQuestion(q),
		}
		if q.Deadline != nil {
			left := present.Countdown(*q.Deadline, now)
			rows[i].Countdown = &left
		}
	}
	return rows, nil
}
