package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// examine takes the steps to a skill's server with a runtime that is never started.
func examine(ctx context.Context, x cli.Examination, path string) error {
	if err := checkPublicURL(x.PublicURL); err != nil {
		return err
	}
	if err := x.Outward.Check(); err != nil {
		return err
	}
	cfg := runtime.Config{
		DB: x.DB, Box: x.Box, Logger: slog.New(slog.DiscardHandler), Now: time.Now, PublicURL: x.PublicURL, DataDir: x.DataDir, Path: path,
		Stdio: x.Stdio, TrustedHosts: x.Outward.TrustedHosts, WorkloadToken: x.Outward.WorkloadToken(),
	}
	return runtime.Examine(ctx, cfg, x.Skill, func(s runtime.Step) { x.Step(s.Name, s.Detail, s.Took, s.Err) })
}

// refusedSkills lists the skills that may not run their programs under a policy.
func refusedSkills(ctx context.Context, db *postgres.DB, policy tool.StdioPolicy) ([]tool.RefusedSkill, error) {
	return runtime.RefusedSkills(ctx, db, policy)
}
