package agent

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ListAnew asks a skill's server for its tools, as the person reaches it, whatever is remembered of it. A failure is
// how the server's answer went, which the skill's health tells by then; the error is this side's. ErrNotFound.
func (s *Service) ListAnew(ctx context.Context, skillID, person uuid.UUID) (*tool.Failure, error) {
	skill, server, err := s.FreshSkill(ctx, skillID)
	if err != nil {
		return nil, err
	}
	s.discovery.ListChanged(skillID)
	_, err = s.discovery.List(ctx, server.For(person), skill.TrustNewTools)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return failure, nil
	}
	if errors.Is(err, tool.ErrSuperseded) { // whoever changed the skill has it listed again
		return nil, nil
	}
	return nil, err
}

// probeTimeout bounds a probe.
const probeTimeout = time.Minute

// Probe connects to a skill's server afresh, as the person reaches it, and tells each step as it is taken. What failed is
// the last step's; the error is this side's, before the first step. Errors: ErrNotFound, tool.ErrNoSource.
func (s *Service) Probe(ctx context.Context, skillID, person uuid.UUID, step func(tool.Step)) error {
	_, server, err := s.FreshSkill(ctx, skillID)
	if err != nil {
		return err
	}
	source, err := s.discovery.Source(server.Transport)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := false
	err = source.Probe(ctx, server.For(person), func(taken tool.Step) {
		failed = failed || taken.Err != nil
		step(taken)
	})
	if err != nil && !failed {
		step(tool.Step{Name: "probe", Err: err})
	}
	return nil
}
