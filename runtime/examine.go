package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Step is one step of [Examine].
type Step = tool.Step

// Examine reaches a skill as a server of this configuration would, and reports each step: the skill's authorization, its
// connection and its tools. It returns the error of the first failed step. Nothing else runs, and no call is made.
func Examine(ctx context.Context, cfg Config, skill string, step func(Step)) error {
	rt, err := New(cfg)
	if err != nil {
		return err
	}
	defer rt.closeServices(context.WithoutCancel(ctx))
	rt.OAuth.Connected = nil // it needs the job queue; servers find calls that can continue by polling
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

// ExamineReviewers returns each agent's gated skills whose calls nobody who is a reviewer now can approve. A call on behalf of a person may still lack a
// reviewer, because people do not decide their own calls.
func ExamineReviewers(ctx context.Context, cfg Config) ([]agent.GatedSkill, error) {
	gated, err := agent.ListGatedSkills(ctx, cfg.DB.Pool())
	if err != nil || len(gated) == 0 {
		return nil, err
	}
	rt, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer rt.closeServices(context.WithoutCancel(ctx))
	reviewers, err := rt.Identity.Reviewers(ctx)
	if err != nil {
		return nil, err
	}
	var lacking []agent.GatedSkill
	for _, one := range gated {
		makers := make([]uuid.UUID, len(one.KeyMakers))
		for i, maker := range one.KeyMakers {
			if makers[i], err = rt.Identity.SameAs(ctx, maker); err != nil {
				return nil, err
			}
		}
		scope := identity.Scope{Agent: one.Agent, Skill: one.Skill, Teams: []string{one.Team, one.EscalateTo}}
		isMaker := func(id uuid.UUID) bool { return slices.Contains(makers, id) }
		if !slices.ContainsFunc(reviewers, func(r identity.Eligible) bool {
			return r.Limit.Covers(scope) && (rt.AllowSelfApproval || !slices.ContainsFunc(r.Inviters, isMaker))
		}) {
			lacking = append(lacking, one)
		}
	}
	return lacking, nil
}

// ExamineMark returns nil if the database was not restored, or was used since.
func ExamineMark(ctx context.Context, db *postgres.DB) (*call.Restored, error) {
	return call.ExamineMark(ctx, db)
}

// RefusedSkills lists by name the registered skills whose programs a policy refuses. It reads no secrets.
func RefusedSkills(ctx context.Context, db *postgres.DB, policy tool.StdioPolicy) ([]tool.RefusedSkill, error) {
	return agent.RefusedSkills(ctx, db.Pool(), policy)
}

// logRefusedSkills logs the skills whose programs are refused, and the flags that permit them.
func (rt *Runtime) logRefusedSkills(ctx context.Context) {
	refused, err := RefusedSkills(ctx, rt.DB, rt.Stdio)
	if err != nil {
		rt.Logger.Warn("list skills that may not run their programs", "error", err)
	}
	for _, skill := range refused {
		rt.Logger.Warn("skill is refused: its program may not be run", "skill", skill.Name, "reason", skill.Reason, "flags", skill.Flags)
	}
}

const (
	// receiverTimeout bounds the lookup of all receivers' hosts.
	receiverTimeout = 15 * time.Second
	// receiverSlots bounds the lookups at one time.
	receiverSlots = 16
)

// ExamineReceivers returns the number of webhooks, callbacks and schedules, and a text for each that a server with these trusted hosts
// could not reach. It sends nothing.
func ExamineReceivers(ctx context.Context, db *postgres.DB, box *secret.Box, trustedHosts []string) (count int, refused []string, err error) {
	all, err := notify.Receivers(ctx, db.Pool(), box)
	if err != nil {
		return 0, nil, err
	}
	callbacks, err := callback.Receivers(ctx, db.Pool(), box)
	if err != nil {
		return 0, nil, err
	}
	schedules, err := oncall.Receivers(ctx, db.Pool(), box)
	if err != nil {
		return 0, nil, err
	}
	all = slices.Concat(all, callbacks, schedules)
	ctx, cancel := context.WithTimeout(ctx, receiverTimeout)
	defer cancel()
	texts := make([]string, len(all))
	slots := make(chan struct{}, receiverSlots)
	var looking sync.WaitGroup
	for i, r := range all {
		looking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := receiver.Examine(ctx, trustedHosts, r.Address); err != nil {
				texts[i] = fmt.Sprintf("%s: %s %s", r.Name, r.Host, err)
			}
		})
	}
	looking.Wait()
	return len(all), slices.DeleteFunc(texts, func(text string) bool { return text == "" }), nil
}
