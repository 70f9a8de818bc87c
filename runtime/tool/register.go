package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Hosts returns the names of the programs whose built-in tools a skill with the transport [Gate] may have. Package host has the tools.
func Hosts() []string {
	return []string{"claude-code", "codex", "gemini", "copilot", "opencode", "cursor"}
}

// maxRegistered bounds the tools of a skill whose callers name them, and maxNamed those that one agent names.
const (
	maxRegistered = 2000
	maxNamed      = 400
)

// Errors of [Discovery.Register].
var (
	// ErrToolName: no tool can have this name.
	ErrToolName = fmt.Errorf("must be 1 to %d bytes of text without control characters", maxToolName)
	// ErrTooManyTools: the skill has too many tools already.
	ErrTooManyTools = errors.New("the skill, or this agent for it, has too many tools to add another one")
)

// Register adds a tool that a caller named to a skill with the transport [Gate], with a schema that accepts every object. An operator has to
// accept it like any new tool. Registering a tool again changes nothing. Each agent can name some of the tools only, so that one does not take
// the places of all. Errors: ErrToolName, ErrTooManyTools.
func (d *Discovery) Register(ctx context.Context, server Server, trustNewTools bool, agentID uuid.UUID, name string) error {
	if name == "" || len(name) > maxToolName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return ErrToolName
	}
	raw, err := json.Marshal(map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
	if err != nil {
		return fmt.Errorf("register tool: %w", err)
	}
	definition, err := ParseDefinition(raw)
	if err != nil {
		return fmt.Errorf("register tool: %w", err)
	}
	err = postgres.InTx(ctx, d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_tools/' || $1::text, 0))`, server.SkillID)
		if err != nil {
			return err
		}
		known, err := readPins(ctx, tx, server.SkillID)
		switch {
		case err != nil:
			return err
		case known[name].Known:
			return nil
		case len(known) >= maxRegistered:
			return ErrTooManyTools
		}
		var named int
		err = tx.QueryRow(ctx, `SELECT count(*) FROM skill_tools WHERE skill_id = $1 AND named_by = $2`, server.SkillID, agentID).Scan(&named)
		if err != nil {
			return err
		}
		if named >= maxNamed {
			return ErrTooManyTools
		}
		if err := StoreDefinitions(ctx, tx, []Definition{definition}); err != nil {
			return err
		}
		changes := compareListing(known, []Definition{definition}, true, trustNewTools)
		if err := storePins(ctx, tx, server.SkillID, changes); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE skill_tools SET named_by = $3 WHERE skill_id = $1 AND name = $2`, server.SkillID, name, agentID); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, auditEvents(server.SkillID, changes)...); err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("register tool %q of skill %s: %w", name, server.Skill, err)
	}
	d.Invalidate()
	return nil
}
