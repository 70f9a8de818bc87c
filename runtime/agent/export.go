package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Export is the registry as a spec.
type Export struct {
	Spec Spec `json:"spec" doc:"What is there. Settings that equal their defaults are left out. Secrets are named in stored, never shown."`
	// Documents are the skills whose OpenAPI document was given by value.
	Documents []string `json:"documents" doc:"Names of skills whose OpenAPI document the spec lacks; getDocument returns it. To apply the spec, add it as document."`
}

// Export returns all skills, agents, assignments, rules and policies, by name. Applying its spec with the documents changes nothing.
func (s *Service) Export(ctx context.Context) (Export, error) {
	export := Export{Documents: []string{}}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := export.addSkills(ctx, tx); err != nil {
			return err
		}
		if err := export.addAgents(ctx, tx); err != nil {
			return err
		}
		rules, err := listVersions[rule.Spec](ctx, tx)
		if err != nil {
			return err
		}
		for _, version := range rules {
			spec := *version.Spec
			if spec.Mode == rule.Enforce {
				spec.Mode = ""
			}
			export.Spec.Rules = append(export.Spec.Rules, spec)
		}
		policies, err := listVersions[policy.Spec](ctx, tx)
		for _, version := range policies {
			export.Spec.Policies = append(export.Spec.Policies, *version.Spec)
		}
		return err
	})
	if err != nil {
		return Export{}, fmt.Errorf("export: %w", err)
	}
	return export, nil
}

func (x *Export) addSkills(ctx context.Context, tx pgx.Tx) error {
	rows, err := postgres.Collect(ctx, tx, scanSkill, `SELECT `+skillColumns+` FROM skills s WHERE s.deleted_at IS NULL ORDER BY s.name`)
	if err != nil {
		return fmt.Errorf("read skills: %w", err)
	}
	for i, row := range rows {
		spec, stored := row.buildSpec()
		x.Spec.Skills = append(x.Spec.Skills, spec)
		x.addStored(indexPath("skills", i), stored)
		if row.API != nil && row.API.Document != "" {
			x.Documents = append(x.Documents, row.Name)
		}
	}
	return nil
}

func (x *Export) addStored(part string, names []string) {
	for _, name := range names {
		x.Spec.Stored = append(x.Spec.Stored, part+"."+name)
	}
}

// buildSpec returns a skill as a spec without secrets and document, and the paths of its secrets.
func (s *Skill) buildSpec() (SkillSpec, []string) {
	spec := SkillSpec{Name: s.Name, Transport: s.Transport, URL: s.URL, Command: s.Command, RunAs: s.RunAs, OAuth: s.OAuth.withSecrets(nil)}
	if s.Transport.IsAPI() {
		spec.URL, spec.BaseURL = "", s.URL
	}
	if !s.Paths.None() {
		spec.Paths = new(s.Paths)
	}
	if s.PerUser {
		spec.Connection = ConnectionPerUser
	}
	s.fillSpec(&spec)
	var stored []string
	for _, secrets := range []struct {
		at    string
		names []string
	}{{"headers.", s.HeaderNames}, {"env.", s.EnvNames}, {"oauth.", s.oauthSecrets()}} {
		for _, name := range secrets.names {
			stored = append(stored, secrets.at+name)
		}
	}
	if api := s.API; api != nil {
		spec.Spec, spec.Include, spec.Exclude, spec.Endpoints, spec.Preview = api.Spec, api.Include, api.Exclude, api.Endpoints, api.Preview
		if api.NoOutputSchemas {
			spec.OutputSchemas = new(false)
		}
		if auth := api.Auth; auth != nil {
			spec.Auth = &APIAuthSpec{Type: auth.Type, In: auth.In, Name: auth.Name, Username: auth.Username}
			stored = append(stored, "auth.secret")
		}
	}
	return spec, stored
}

func (s *Skill) oauthSecrets() []string {
	if s.OAuth == nil {
		return nil
	}
	return s.OAuth.Secrets
}

func (x *Export) addAgents(ctx context.Context, tx pgx.Tx) error {
	agents, err := postgres.Collect(ctx, tx, scanAgent, `SELECT `+agentColumns+` FROM agents a WHERE a.deleted_at IS NULL ORDER BY a.name`)
	if err != nil {
		return fmt.Errorf("read agents: %w", err)
	}
	withKey, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `SELECT id FROM agents WHERE deleted_at IS NULL AND secrets IS NOT NULL`)
	if err != nil {
		return fmt.Errorf("read agents with an API key: %w", err)
	}
	assignments, err := readAssignments(ctx, tx, uuid.Nil)
	if err != nil {
		return err
	}
	for i, a := range agents {
		skills := []AssignmentSpec{}
		for _, assigned := range assignments {
			if assigned.AgentID == a.ID {
				skills = append(skills, AssignmentSpec{Skill: assigned.Skill, Tools: assigned.Tools, Prefix: assigned.Prefix})
			}
		}
		spec := AgentSpec{Name: a.Name, Instructions: a.Instructions, Skills: &skills}
		a.fillSpec(&spec)
		if a.Model != nil {
			spec.Model = &ModelSpec{}
			if err := json.Unmarshal(a.Model, spec.Model); err != nil {
				return fmt.Errorf("read model of agent %s: %w", a.Name, err)
			}
			if slices.Contains(withKey, a.ID) {
				x.addStored(indexPath("agents", i), []string{"model.api_key"})
			}
		}
		x.Spec.Agents = append(x.Spec.Agents, spec)
	}
	return nil
}
