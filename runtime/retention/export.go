package retention

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// exportSection is a list of the exported data. Its SQL has the person as $1.
type exportSection struct{ name, sql string }

// exportSections returns what is stored about a person, without secrets. Arguments and results are the stored JSON texts.
func exportSections() []exportSection {
	const text = `convert_from(%s, 'UTF8')`
	decode := func(column string) string { return strings.ReplaceAll(text, "%s", column) + " AS " + column }
	return []exportSection{
		{"person", `SELECT id, issuer, subject, name, email, verified_email, created_at, signed_in_at, blocked_at, invited_by, claimed_roles, claimed_teams, granted_roles,
			granted_teams, granted_agents FROM people WHERE id = $1`},
		{"links", `SELECT person_id, same_as, linked_at FROM person_links WHERE person_id = $1 OR same_as = $1`},
		{"invitations", `SELECT id, name, issuer, subject, email, roles, agents, created_at, redeemed_at FROM invitations WHERE redeemed_by = $1 ORDER BY id`},
		{"tokens", `SELECT id, hint, roles, agents, created_at, expires_at, revoked_at FROM person_tokens WHERE person_id = $1 ORDER BY id`},
		{"sessions", `SELECT id, method, client, created_at, authenticated_at, expires_at, revoked_at FROM person_sessions WHERE person_id = $1 ORDER BY id`},
		{"push_subscriptions", `SELECT id, client, created_at, sent_at FROM push_subscriptions WHERE person_id = $1 ORDER BY id`},
		{"absences", `SELECT substitute_id, starts_at, ends_at, created_at FROM absences WHERE person_id = $1 OR substitute_id = $1 ORDER BY id`},
		{"delegations", `SELECT team, person_id, member_id, ends_at, created_at FROM delegations WHERE person_id = $1 OR member_id = $1 ORDER BY id`},
		{"shifts", `SELECT team, starts_at, ends_at, label FROM shifts WHERE $1 = ANY(people) ORDER BY team, number`},
		{"queue_views", `SELECT name, query FROM queue_views WHERE person_id = $1 ORDER BY name`},
		{"connections", `SELECT id, skill_id, issuer, scopes_granted, connected_at FROM oauth_connections WHERE principal_id = $1 ORDER BY id`},
		{"decisions", `SELECT call_id, status, tool, decided_at, note, decided_address AS address FROM approvals WHERE decided_by = $1 ORDER BY call_id`},
		{"question_decisions", `SELECT call_id, number, status, decided_at, note FROM call_questions WHERE decided_by = $1 ORDER BY call_id`},
		{"votes", `SELECT call_id, number, approves, voted_at, void_at, note, address FROM approval_votes WHERE person_id = $1 ORDER BY call_id, number`},
		{"comments", `SELECT call_id, number, text, created_at FROM approval_comments WHERE person_id = $1 ORDER BY call_id, number`},
		{"grants", `SELECT id, agent_id, principal_id, skill_id, tool, arguments, call_id, granted_at, granted_by, second_at, second_by, ends_at, uses, taken, used_at, revoked_at, revoked_by
			FROM grants WHERE $1 IN (principal_id, granted_by, second_by, revoked_by) ORDER BY id`},
		{"plans", `SELECT id, agent_id, principal_id, title, calls, status, created_at, decided_at, decided_by, note, ends_at, closed_at, closed_by
			FROM plans WHERE $1 IN (principal_id, decided_by, closed_by) ORDER BY id`},
		{"calls", `SELECT id, agent_id, conversation_id, skill_id, tool, exposed_name AS name, status, code, message, created_at, finished_at, content_deleted_at, ` +
			decode("arguments") + `, ` + decode("submitted") + `, ` + decode("result") + ` FROM calls WHERE principal_id = $1 ORDER BY id`},
		{"files", `SELECT id, agent_id, filename, content_type, size, created_at, attached_at, content_deleted_at FROM files WHERE principal_id = $1 ORDER BY id`},
		{"conversations", `SELECT id, agent_id, name, created_at, ended_at FROM conversations WHERE principal_id = $1 ORDER BY id`},
		{"messages", `SELECT e.conversation_id, e.seq, e.kind, e.data, e.at FROM loop_entries e JOIN loops l USING (conversation_id)
			WHERE l.principal_id = $1 ORDER BY e.conversation_id, e.seq`},
		{"events", `SELECT id, at, subject_id, action, data, credential_kind, credential_id, address FROM audit_events
			WHERE subject_id = $1 OR actor_kind = 'person' AND actor_id = $1 ORDER BY id`},
	}
}

// exportRows is the number of rows that are read at a time.
const exportRows = 200

// Export records that a person's data are exported, and returns a function that writes them as one JSON object. Error: [ErrNoPerson].
func (s *Service) Export(ctx context.Context, by audit.Actor, person uuid.UUID) (write func(context.Context, io.Writer) error, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM people WHERE id = $1)`, person).Scan(&known); err != nil {
			return err
		}
		if !known {
			return ErrNoPerson
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.PersonExported, Subject: person, Data: map[string]any{"pseudonym": pseudonymOf(person)},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("export person %s: %w", person, err)
	}
	return func(ctx context.Context, w io.Writer) error {
		out := bufio.NewWriter(w)
		err := s.writePerson(ctx, out, person)
		if err = errors.Join(err, out.Flush()); err != nil {
			return fmt.Errorf("export person %s: %w", person, err)
		}
		return nil
	}, nil
}

// writePerson reads everything at one moment, with a cursor for each section. No index has the people of calls, so it reads whole tables.
func (s *Service) writePerson(ctx context.Context, w *bufio.Writer, person uuid.UUID) error {
	return pgx.BeginTxFunc(ctx, s.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '10min'; SET LOCAL idle_in_transaction_session_timeout = '1min'; SET LOCAL enable_seqscan = on`); err != nil {
			return err
		}
		for i, section := range exportSections() {
			separator := ",\n"
			if i == 0 {
				separator = "{"
			}
			fmt.Fprintf(w, "%s%q: [", separator, section.name)
			if err := writeSection(ctx, tx, w, section, person); err != nil {
				return fmt.Errorf("%s: %w", section.name, err)
			}
			if _, err := w.WriteString("]"); err != nil {
				return err
			}
		}
		_, err := w.WriteString("}\n")
		return err
	})
}

func writeSection(ctx context.Context, tx pgx.Tx, w *bufio.Writer, section exportSection, person uuid.UUID) error {
	if _, err := tx.Exec(ctx, `DECLARE exported NO SCROLL CURSOR FOR SELECT row_to_json(t)::text FROM (`+strings.ReplaceAll(section.sql, "$1", "'"+person.String()+"'::uuid")+`) AS t`); err != nil {
		return err
	}
	for first := true; ; {
		rows, _ := tx.Query(ctx, fmt.Sprintf(`FETCH %d FROM exported`, exportRows))
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, text := range found {
			if !first {
				text = ",\n" + text
			}
			first = false
			if _, err := w.WriteString(text); err != nil {
				return err
			}
		}
		if len(found) < exportRows {
			_, err := tx.Exec(ctx, `CLOSE exported`)
			return err
		}
	}
}
