package queue

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
)

const planWindow = 50 // pending plans on the queue page

// readPlanState returns a text that changes with the list of plans that wait for a reviewer.
func (h *Handler) readPlanState(ctx context.Context) (string, error) {
	ids, err := h.agents.ListPendingPlans(ctx)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	sum := fnv.New64a()
	for _, id := range ids {
		_, _ = sum.Write(id[:]) // never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// readPendingPlans reads and presents the plans that wait for a reviewer.
func (h *Handler) readPendingPlans(ctx context.Context, now time.Time) ([]PendingPlan, error) {
	list, err := h.agents.ListPlans(ctx, true, planWindow)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	people := make([]uuid.UUID, len(list))
	for i := range list {
		people[i] = list[i].PrincipalID
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	rows := make([]PendingPlan, len(list))
	for i := range list {
		p := &list[i]
		rows[i] = PendingPlan{
			ID: p.ID.String(), URL: present.PlanURL(p.ID), Count: text.PlansCount(len(p.Calls)), Title: p.Title, Agent: p.Agent,
			Principal: present.PersonName(p.PrincipalID, names), Countdown: present.Countdown(p.Deadline, now),
		}
	}
	return rows, nil
}
