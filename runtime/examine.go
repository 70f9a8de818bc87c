package runtime

import (
	"context"
	"fmt"
	"maps"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Step is one step of [Examine].
type Step = tool.Step

// Examine takes the steps by which a server of this configuration would reach a skill, and tells of each, up to the
// first that breaks, whose error it returns: the skill's authorization, then its connection and its
// tools. Nothing else runs, and no call is made.
func Examine(ctx context.Context, cfg Config, skill string, step func(Step)) error {
	rt, err := New(cfg)
	if err != nil {
		return err
	}
	defer rt.close(context.WithoutCancel(ctx))
	rt.OAuth.Connected = nil // it needs the job queue; servers look for calls that can go on by themselves
	found, err := rt.Agents.SkillByName(ctx, skill)
	if err != nil {
		return fmt.Errorf("find skill %q: %w", skill, err)
	}
	_, server, err := rt.Agents.FreshSkill(ctx, found.ID)
	if err != nil {
		return fmt.Errorf("read skill %q: %w", skill, err)
	}
	if tool.TakesTokens(server.Transport, server.URL, maps.Keys(server.Headers)) {
		err := rt.OAuth.Walk(ctx, oauthclient.Key{SkillID: found.ID}, func(s oauthclient.Step) { step(Step(s)) })
		if err != nil {
			return err
		}
	}
	if server.PerUser {
		step(Step{Name: "connect", Detail: "not tried: each person has a connection of their own"})
		return nil
	}
	source, err := rt.Discovery.Source(server.Transport)
	if err != nil {
		return err
	}
	return source.Probe(ctx, server, step)
}
