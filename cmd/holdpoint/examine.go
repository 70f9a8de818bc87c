package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/runtime"
)

// examineSkill connects to a skill's server step by step, with a runtime that is never started.
func examineSkill(ctx context.Context, x cli.Examination, path string) error {
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
