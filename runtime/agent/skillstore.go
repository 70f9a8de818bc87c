package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// querier reads: the pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const skillColumns = `s.id, s.name, s.transport, s.settings, s.secrets, s.auto_approve, s.trust_new_tools,
	s.approval_timeout_ms, s.call_timeout_ms, s.tools, coalesce(s.team, ''), coalesce(s.escalate_to, ''), s.revision, s.discovered_at, s.listed_at,
	coalesce(s.list_error_kind, ''), coalesce(s.list_error, ''), s.skipped, s.created_at, s.updated_at,
	coalesce((SELECT octet_length(d.document) FROM skill_documents d WHERE d.digest = decode(s.settings #>> '{api,document}', 'hex')), 0)`

// skillRow is a skill as it is stored.
type skillRow struct {
	Skill
	settings           skillSettings
	sealed             []byte
	approvalMS, callMS int64
}

func (r *skillRow) targets() []any {
	return []any{
		&r.ID, &r.Name, &r.Transport, &r.settings, &r.sealed, &r.AutoApprove, &r.TrustNewTools,
		&r.approvalMS, &r.callMS, &r.Tools, &r.Team, &r.EscalateTo, &r.Revision,
		&r.Health.DiscoveredAt, &r.Health.ListedAt, &r.Health.ErrorKind, &r.Health.Error, &r.Health.Skipped, &r.CreatedAt, &r.UpdatedAt, &r.DocumentSize,
	}
}

// complete fills in what is stored in another form.
func (r *skillRow) complete() {
	r.URL, r.Command = r.settings.URL, r.settings.Command
	r.HeaderNames, r.EnvNames = r.settings.HeaderNames, r.settings.EnvNames
	r.RunAs, r.Paths = r.settings.RunAs, r.settings.Paths
	r.OAuth, r.PerUser, r.API = r.settings.OAuth, r.settings.PerUser, r.settings.API
	r.Resources, r.Edits, r.IdentityHeaders = resources(r.settings.Resources), cmp.Or(r.settings.Edits, EditsByRisk), r.settings.IdentityHeaders
	r.Questions = cmp.Or(r.settings.Questions, QuestionsReviewer)
	r.ApprovalTimeout = time.Duration(r.approvalMS) * time.Millisecond
	r.ApprovalValidity = time.Duration(r.settings.ApprovalValidity)
	r.CallTimeout = time.Duration(r.callMS) * time.Millisecond
}

func scanSkill(row pgx.CollectableRow) (*skillRow, error) {
	r := &skillRow{}
	err := row.Scan(r.targets()...)
	r.complete()
	return r, err
}

// open decrypts.
func (r *skillRow) open(box *secret.Box) (skillSecrets, error) {
	var secrets skillSecrets
	if err := unseal(box, skillPurpose, r.ID, r.sealed, &secrets); err != nil {
		return secrets, fmt.Errorf("read secrets of skill %s: %w", r.Name, err)
	}
	return secrets, nil
}

func (r *skillRow) server(box *secret.Box) (tool.Server, error) {
	secrets, err := r.open(box)
	if err != nil {
		return tool.Server{}, err
	}
	server := tool.Server{
		SkillID: r.ID, Skill: r.Name, Revision: r.Revision, Transport: r.Transport,
		URL: r.URL, PublicHosts: r.settings.PublicHosts, Headers: secrets.Headers, Command: r.Command, Env: secrets.Env, RunAs: r.RunAs, Paths: r.Paths,
		Authorization: r.OAuth.with(secrets.OAuth).authorization(), PerUser: r.PerUser,
	}
	if r.Transport.IsAPI() {
		server.API, server.AuthSecret = r.api(), secrets.Auth
	}
	return server, nil
}

// api is what a source is told of an HTTP API.
func (r *skillRow) api() *tool.API {
	api := tool.API{Select: map[string]string{}}
	if r.API != nil {
		api = *r.API
		api.Select = map[string]string{}
	}
	for name, settings := range r.Tools {
		if settings.Select != "" {
			api.Select[name] = settings.Select
		}
	}
	return &api
}

func (r *skillRow) state(box *secret.Box) (*skillState, error) {
	secrets, err := r.open(box)
	if err != nil {
		return nil, err
	}
	api := apiState{secret: secrets.Auth}
	if r.API != nil {
		api.API = *r.API
	}
	return &skillState{
		API:       api,
		RunAs:     r.RunAs,
		Paths:     r.Paths,
		Transport: r.Transport, URL: r.URL, Command: r.Command, Headers: secrets.Headers, Env: secrets.Env,
		OAuth: r.OAuth.with(secrets.OAuth), PerUser: r.PerUser,
		AutoApprove: r.AutoApprove, TrustNewTools: r.TrustNewTools,
		ApprovalTimeout: r.ApprovalTimeout, ApprovalValidity: r.ApprovalValidity, CallTimeout: r.CallTimeout, Resources: r.Resources, Edits: r.Edits, Questions: r.Questions,
		IdentityHeaders: r.IdentityHeaders, Tools: r.Tools,
		Attention: attention{r.Team, r.EscalateTo},
	}, nil
}

func oneSkill(ctx context.Context, db querier, where string, arg any) (*skillRow, error) {
	rows, err := db.Query(ctx, `SELECT `+skillColumns+` FROM skills s WHERE s.deleted_at IS NULL AND `+where, arg)
	if err != nil {
		return nil, fmt.Errorf("read skill %v: %w", arg, err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, scanSkill)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("skill %v: %w", arg, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read skill %v: %w", arg, err)
	}
	return row, nil
}

// insertSkill stores a new skill.
func (e *edit) insertSkill(ctx context.Context, name string, s *skillState) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, err
	}
	sealed, err := e.sealSkill(id, s)
	if err != nil {
		return id, err
	}
	if err := e.keepDocument(ctx, s); err != nil {
		return id, err
	}
	settings := s.settings()
	settings.PublicHosts = e.publicHosts(nil, s)
	_, err = e.tx.Exec(ctx, `INSERT INTO skills (id, name, transport, settings, secrets, auto_approve, trust_new_tools,
			approval_timeout_ms, call_timeout_ms, tools, team, escalate_to)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, nullif($11, ''), nullif($12, ''))`, id, name, string(s.Transport), settings, sealed,
		s.AutoApprove, s.TrustNewTools, s.ApprovalTimeout.Milliseconds(), s.CallTimeout.Milliseconds(), s.Tools,
		s.Attention.Team, s.Attention.EscalateTo)
	if err != nil {
		return id, err
	}
	e.did("skill.created", id, auditData(name, diff(nil, s.fields())))
	return id, nil
}

// updateSkill stores a changed skill; agents that have it see a new revision.
func (e *edit) updateSkill(ctx context.Context, row *skillRow, s *skillState, changes []FieldChange) error {
	sealed, err := e.sealSkill(row.ID, s)
	if err != nil {
		return err
	}
	if err := e.keepDocument(ctx, s); err != nil {
		return err
	}
	settings := s.settings()
	settings.PublicHosts = e.publicHosts(row, s)
	_, err = e.tx.Exec(ctx, `UPDATE skills SET transport = $2, settings = $3, secrets = $4, auto_approve = $5,
			trust_new_tools = $6, approval_timeout_ms = $7, call_timeout_ms = $8, tools = $9,
			team = nullif($10, ''), escalate_to = nullif($11, ''),
			revision = revision + 1, updated_at = holdpoint_now() WHERE id = $1`,
		row.ID, string(s.Transport), settings, sealed, s.AutoApprove, s.TrustNewTools,
		s.ApprovalTimeout.Milliseconds(), s.CallTimeout.Milliseconds(), s.Tools,
		s.Attention.Team, s.Attention.EscalateTo)
	if err != nil {
		return err
	}
	if err := e.dropDocument(ctx, row.API); err != nil {
		return err
	}
	data := auditData(row.Name, changes)
	data["revision"] = row.Revision + 1
	e.did("skill.updated", row.ID, data)
	return e.touchUsers(ctx, row.ID)
}

func (e *edit) sealSkill(id uuid.UUID, s *skillState) ([]byte, error) {
	secrets := s.secrets()
	return seal(e.box, skillPurpose, id, secrets, secrets.none())
}
