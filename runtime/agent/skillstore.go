package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const skillColumns = `s.id, s.name, s.transport, s.settings, s.secrets, ` + skillSettingValues + `, s.revision, s.discovered_at, s.listed_at,
	coalesce(s.list_error_kind, ''), coalesce(s.list_error, ''), s.skipped, s.created_at, s.updated_at,
	coalesce((SELECT octet_length(d.document) FROM skill_documents d WHERE d.digest = decode(s.settings #>> '{api,document}', 'hex')), 0)`

// skillRow is a skill as it is stored.
type skillRow struct {
	Skill
	settings skillSettings
	sealed   []byte
}

func scanSkill(row pgx.CollectableRow) (*skillRow, error) {
	r := &skillRow{}
	return r, r.scan(row)
}

// scan reads skillColumns, and the columns after them.
func (r *skillRow) scan(row pgx.CollectableRow, more ...any) error {
	err := row.Scan(slices.Concat(
		[]any{&r.ID, &r.Name, &r.Transport, &r.settings, &r.sealed},
		r.settingTargets(),
		[]any{
			&r.Revision, &r.Health.DiscoveredAt, &r.Health.ListedAt, &r.Health.ErrorKind, &r.Health.Error, &r.Health.Skipped,
			&r.CreatedAt, &r.UpdatedAt, &r.DocumentSize,
		}, more)...)
	stored := &r.settings
	r.URL, r.Command, r.HeaderNames, r.EnvNames = stored.URL, stored.Command, stored.HeaderNames, stored.EnvNames
	r.RunAs, r.Paths, r.OAuth, r.PerUser, r.API = stored.RunAs, stored.Paths, stored.OAuth, stored.PerUser, stored.API
	r.setStored(&stored.storedSkillSettings)
	return err
}

// milliseconds scans a number of milliseconds into a duration.
type milliseconds time.Duration

// ScanInt64 implements [pgtype.Int64Scanner].
func (m *milliseconds) ScanInt64(v pgtype.Int8) error {
	*m = milliseconds(time.Duration(v.Int64) * time.Millisecond)
	return nil
}

// openSecrets decrypts.
func (r *skillRow) openSecrets(box *secret.Box) (skillSecrets, error) {
	var secrets skillSecrets
	if err := unsealSecrets(box, skillPurpose, r.ID, r.sealed, &secrets); err != nil {
		return secrets, fmt.Errorf("read secrets of skill %s: %w", r.Name, err)
	}
	return secrets, nil
}

func (r *skillRow) buildServer(box *secret.Box) (tool.Server, error) {
	secrets, err := r.openSecrets(box)
	if err != nil {
		return tool.Server{}, err
	}
	server := tool.Server{
		SkillID: r.ID, Skill: r.Name, Revision: r.Revision, Transport: r.Transport,
		URL: r.URL, PublicHosts: r.settings.PublicHosts, Headers: secrets.Headers, Command: r.Command, Env: secrets.Env, RunAs: r.RunAs, Paths: r.Paths, Host: r.Host,
		Authorization: r.OAuth.withSecrets(secrets.OAuth).buildAuthorization(), PerUser: r.PerUser,
	}
	if r.Transport.IsAPI() {
		var api tool.API
		setIfGiven(&api, r.API)
		server.API, server.AuthSecret = apiWithSelects(api, r.Tools), secrets.Auth
	}
	return server, nil
}

// apiWithSelects returns the settings of an HTTP API with the jq programs of its tools.
func apiWithSelects(api tool.API, tools map[string]ToolSettings) *tool.API {
	api.Select = map[string]string{}
	for name, settings := range tools {
		if settings.Select != "" {
			api.Select[name] = settings.Select
		}
	}
	return &api
}

func (r *skillRow) buildState(box *secret.Box) (*skillState, error) {
	secrets, err := r.openSecrets(box)
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
		OAuth: r.OAuth.withSecrets(secrets.OAuth), PerUser: r.PerUser,
		SkillSettings: r.SkillSettings,
	}, nil
}

func readSkillRow(ctx context.Context, db postgres.Querier, where string, arg any) (*skillRow, error) {
	rows, _ := db.Query(ctx, skillSelect+where, arg)
	return collectSkillRow(rows, arg)
}

const skillSelect = `SELECT ` + skillColumns + ` FROM skills s WHERE s.deleted_at IS NULL AND `

// collectSkillRow returns the only row of [skillSelect], or [ErrNotFound]. arg identifies the skill in errors.
func collectSkillRow(rows pgx.Rows, arg any) (*skillRow, error) {
	row, err := pgx.CollectExactlyOneRow(rows, scanSkill)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("skill %v: %w", arg, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read skill %v: %w", arg, err)
	}
	return row, nil
}

// insertSkill stores a new skill. Under dual control, what loosens is left out and waits, or the whole skill does: then the id is uuid.Nil.
func (e *edit) insertSkill(ctx context.Context, name string, s *skillState) (uuid.UUID, error) {
	if waits, err := e.proposeNewSkill(ctx, name, s); err != nil || waits {
		return uuid.Nil, err
	}
	tight, loosened := tightenSkill(s)
	if !loosened || !e.isControlled() {
		return e.storeSkill(ctx, name, s)
	}
	id, err := e.storeSkill(ctx, name, tight)
	if err != nil {
		return id, err
	}
	row, err := readSkillRow(ctx, e.tx, `s.id = $1`, id)
	if err != nil {
		return id, err
	}
	return id, e.updateSkill(ctx, row, s, diffFields(tight.listFields(), s.listFields()))
}

func (e *edit) storeSkill(ctx context.Context, name string, s *skillState) (uuid.UUID, error) {
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
	settings := s.storedSettings()
	settings.PublicHosts = e.publicHosts(nil, s)
	_, err = e.tx.Exec(ctx, `INSERT INTO skills (id, name, transport, settings, secrets, `+skillSettingColumns+`)
		VALUES ($1, $2, $3, $4, $5, `+skillSettingParameters+`)`,
		append([]any{id, name, string(s.Transport), settings, sealed}, s.settingArguments()...)...)
	if err != nil {
		return id, err
	}
	e.recordChange(audit.SkillCreated, id, auditData(name, diffFields(nil, s.listFields())))
	return id, e.deleteLabel(ctx, labeled{KindSkill, name})
}

// updateSkill stores a changed skill, and increments the revisions of its agents. Under dual control, a change that loosens waits.
func (e *edit) updateSkill(ctx context.Context, row *skillRow, s *skillState, changes []FieldChange) error {
	if waits, err := e.proposeSkill(ctx, row, s, changes); err != nil || waits {
		return err
	}
	sealed, err := e.sealSkill(row.ID, s)
	if err != nil {
		return err
	}
	if err := e.keepDocument(ctx, s); err != nil {
		return err
	}
	settings := s.storedSettings()
	settings.PublicHosts = e.publicHosts(row, s)
	_, err = e.tx.Exec(ctx, `UPDATE skills SET (transport, settings, secrets, `+skillSettingColumns+`) = ($3, $4, $5, `+skillSettingParameters+`),
			revision = revision + 1, updated_at = holdpoint_now() WHERE id = $1 AND name = $2`,
		append([]any{row.ID, row.Name, string(s.Transport), settings, sealed}, s.settingArguments()...)...)
	if err != nil {
		return err
	}
	if err := e.dropDocument(ctx, row.API); err != nil {
		return err
	}
	data := auditData(row.Name, changes)
	data["revision"] = row.Revision + 1
	e.recordChange(audit.SkillUpdated, row.ID, data)
	return e.touchUsers(ctx, row.ID)
}

func (e *edit) sealSkill(id uuid.UUID, s *skillState) ([]byte, error) {
	secrets := skillSecrets{Headers: s.Headers, Env: s.Env, OAuth: s.OAuth.listSecrets(), Auth: s.API.secret}
	none := len(secrets.Headers)+len(secrets.Env)+len(secrets.OAuth)+len(secrets.Auth) == 0
	return sealSecrets(e.box, skillPurpose, id, secrets, none)
}

// Document returns an OpenAPI document that an operator gave by value, by its SHA-256 in hex. ErrNotFound.
func (s *Service) Document(ctx context.Context, digest string) ([]byte, error) {
	sum, err := hex.DecodeString(digest)
	if err != nil {
		return nil, fmt.Errorf("document %q: %w", digest, ErrNotFound)
	}
	var document []byte
	err = s.pool.QueryRow(ctx, `SELECT document FROM skill_documents WHERE digest = $1`, sum).Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("document %s: %w", digest, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", digest, err)
	}
	return document, nil
}

// keepDocument stores a new document of a skill.
func (e *edit) keepDocument(ctx context.Context, s *skillState) error {
	if s.API.document == nil {
		return nil
	}
	_, err := e.tx.Exec(ctx, `INSERT INTO skill_documents (digest, document) VALUES (decode($1, 'hex'), $2) ON CONFLICT DO NOTHING`,
		s.API.Document, s.API.document)
	if err != nil {
		return fmt.Errorf("store document: %w", err)
	}
	return nil
}

// dropDocument deletes a document that a skill had, unless another skill has it.
func (e *edit) dropDocument(ctx context.Context, api *tool.API) error {
	if api == nil || api.Document == "" {
		return nil
	}
	_, err := e.tx.Exec(ctx, `DELETE FROM skill_documents WHERE digest = decode($1, 'hex') AND NOT EXISTS (
		SELECT FROM skills WHERE deleted_at IS NULL AND settings #>> '{api,document}' = $1)`, api.Document)
	if err != nil {
		return fmt.Errorf("delete document: %w", err)
	}
	return nil
}
