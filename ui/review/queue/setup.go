package queue

import (
	"context"
	"slices"

	"github.com/holdpoint/holdpoint/ui/text"
)

// SetupStep is a step of setting up Holdpoint.
type SetupStep struct {
	Word text.Message
	URL  string
	Done bool
}

// readSetup returns the steps of setting up, or nil if all are done.
func (h *Handler) readSetup(ctx context.Context) ([]SetupStep, error) {
	found, err := h.agents.ReadSetup(ctx)
	if err != nil {
		return nil, err
	}
	reviewers, err := h.identity.Reviewers(ctx)
	if err != nil {
		return nil, err
	}
	steps := []SetupStep{
		{Word: text.QueueSetupSkill(), URL: "/skills/new", Done: found.HasSkill},
		{Word: text.QueueSetupAssign(), URL: "/agents", Done: found.HasAssignment},
		{Word: text.QueueSetupKey(), URL: "/agents", Done: found.HasKey},
		{Word: text.QueueSetupReviewer(), URL: "/members", Done: len(reviewers) > 1},
	}
	if !slices.ContainsFunc(steps, func(s SetupStep) bool { return !s.Done }) {
		return nil, nil
	}
	return steps, nil
}
