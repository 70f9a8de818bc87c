package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Risk is how much attention a call wants of whoever decides about it.
type Risk string

// The risks of calls.
const (
	RiskStandard    Risk = "standard"
	RiskDestructive Risk = "destructive" // the server says that its tool is
	RiskMarked      Risk = RiskHigh      // an operator marked the tool
)

// RiskOf is the risk of calls of a skill's tool that has this definition. What an operator said counts; what the server claims
// only ever adds to it.
func (s *Service) RiskOf(ctx context.Context, skill uuid.UUID, name string, d tool.Definition) (Risk, error) {
	found, _, err := s.Skill(ctx, skill)
	switch {
	case errors.Is(err, ErrNotFound): // deleted: a decision will find that out
	case err != nil:
		return "", fmt.Errorf("read risk of tool %s: %w", name, err)
	case found.Tools[name].Risk != "":
		return RiskMarked, nil
	}
	if hint := d.Hints().DestructiveHint; hint != nil && *hint {
		return RiskDestructive, nil
	}
	return RiskStandard, nil
}
