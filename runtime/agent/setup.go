package agent

import (
	"context"
	"fmt"
)

// Setup says which steps of setting up have been done.
type Setup struct {
	HasSkill      bool
	HasAssignment bool
	HasKey        bool // that is valid
}

// ReadSetup reads the steps that have been done. It is cheap.
func (s *Service) ReadSetup(ctx context.Context) (Setup, error) {
	var found Setup
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM skills WHERE deleted_at IS NULL), EXISTS (SELECT FROM assignments),
		EXISTS (SELECT FROM agent_keys WHERE `+keyValid+`)`).Scan(&found.HasSkill, &found.HasAssignment, &found.HasKey)
	if err != nil {
		return Setup{}, fmt.Errorf("read setup: %w", err)
	}
	return found, nil
}
