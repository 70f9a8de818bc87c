package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// databaseMark is the row by which a restored database is told from the one that was in use.
type databaseMark struct {
	Place    string
	Original bool // the row was not copied
	Timeline postgres.Timeline
}

// readPlace names the server, the database and the table of the mark. Servers that only resemble PostgreSQL may have no system identifier.
func readPlace(ctx context.Context, db postgres.Querier) (string, error) {
	table, err := postgres.CollectOne(ctx, db, pgx.RowTo[string],
		`SELECT oid || '/' || 'database_mark'::regclass::oid FROM pg_database WHERE datname = current_database()`)
	if err != nil {
		return "", fmt.Errorf("identify the database: %w", err)
	}
	system, err := postgres.CollectOne(ctx, db, pgx.RowTo[string], `SELECT system_identifier::text FROM pg_control_system()`)
	if err != nil && sqlClass(err) != "42" { // no such function, or no privilege
		return "", fmt.Errorf("identify the database server: %w", err)
	}
	return system + "/" + table, nil
}

// checkMark finds out whether the database is a restored copy: a restored dump has the mark of another place, and a restored base backup
// that of an earlier timeline. The calls that it may have forgotten to have sent become unknown. Then it marks the database as the one in use.
//
// A new timeline is also that of a promoted standby. Instances that live through the promotion write it into the mark before they recall their
// calls; see [Service.followTimeline].
func (s *Service) checkMark(ctx context.Context, timeline postgres.Timeline) error {
	place, err := readPlace(ctx, s.vital)
	if err != nil {
		return err
	}
	var lost []*move
	restored := ""
	err = postgres.InTx(ctx, s.vital, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE database_mark IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		m, err := readMark(ctx, tx)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) { // no row: a new database, or of a version without the mark
			return err
		}
		if err == nil {
			if restored = m.explainRestored(place, timeline); restored == "" {
				return nil
			}
			if lost, err = s.abandonInTx(ctx, tx); err != nil {
				return err
			}
		}
		return writeMark(ctx, tx, place, timeline)
	})
	if err != nil {
		return fmt.Errorf("check the mark of the database: %w", err)
	}
	if restored != "" {
		s.reportRestored(ctx, restored, lost)
	}
	return nil
}

// explainRestored says why the database at a place is a restored copy; "": it is the one in use.
func (m *databaseMark) explainRestored(place string, timeline postgres.Timeline) string {
	switch {
	case !m.Original || m.Place != place:
		return "it is a copy"
	case m.Timeline != timeline && m.Timeline != 0 && timeline != 0:
		return fmt.Sprintf("timeline %d follows %d, and no process of that time runs", timeline, m.Timeline)
	}
	return ""
}

// Restored describes a database that was restored and not used since.
type Restored struct {
	Reason string
	Calls  int // that become unknown at the first start
}

// ExamineMark returns nil if the database was not restored, or was used since.
func ExamineMark(ctx context.Context, db *postgres.DB) (*Restored, error) {
	place, err := readPlace(ctx, db.Pool())
	if err != nil {
		return nil, err
	}
	var found *Restored
	err = db.Reader().InTx(ctx, func(tx pgx.Tx) error {
		m, err := readMark(ctx, tx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		reason := m.explainRestored(place, db.Timeline())
		if reason == "" {
			return nil
		}
		sendable, err := listSendable(ctx, tx)
		if err != nil {
			return err
		}
		unconnected, err := listUnconnected(ctx, tx, "")
		found = &Restored{reason, len(sendable) + len(unconnected)}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the mark of the database: %w", err)
	}
	return found, nil
}

func readMark(ctx context.Context, tx pgx.Tx) (databaseMark, error) {
	rows, _ := tx.Query(ctx, `SELECT place, xmin::text::bigint = writer AS original, timeline FROM database_mark`)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[databaseMark])
}

func writeMark(ctx context.Context, tx pgx.Tx, place string, timeline postgres.Timeline) error {
	_, err := tx.Exec(ctx, `INSERT INTO database_mark (place, writer, timeline) VALUES ($1, pg_current_xact_id()::text::bigint & 4294967295, $2)
		ON CONFLICT (only_row) DO UPDATE SET place = excluded.place, writer = excluded.writer, timeline = excluded.timeline`, place, int64(timeline))
	return err
}

// followTimeline writes a new timeline into the mark: this instance ran before it, so the database was not restored.
func (s *Service) followTimeline(ctx context.Context, conn *pgx.Conn, timeline postgres.Timeline) error {
	_, err := conn.Exec(ctx, `UPDATE database_mark SET timeline = $1, writer = pg_current_xact_id()::text::bigint & 4294967295 WHERE timeline < $1`, int64(timeline))
	if err != nil {
		return fmt.Errorf("follow the database to timeline %d: %w", timeline, err)
	}
	return nil
}

const restoredMessage = "the database was restored; the call may have been executed since the backup"

// abandonInTx makes all calls unknown that could be sent without another decision, because they may have been sent before the database was
// restored. It stops what makes such calls.
func (s *Service) abandonInTx(ctx context.Context, tx pgx.Tx) ([]*move, error) {
	sendable, err := listSendable(ctx, tx)
	if err != nil {
		return nil, err
	}
	lost, err := s.markUnknown(ctx, tx, sendable, nil, restoredMessage)
	if err != nil {
		return nil, err
	}
	unconnected, err := listUnconnected(ctx, tx, "FOR UPDATE")
	if err != nil {
		return nil, err
	}
	forgotten := make([]*move, len(unconnected))
	for i, id := range unconnected {
		forgotten[i] = &move{event: onForget, id: id, outcome: outcome{
			status: Unknown, code: CodeOutcomeUnknown, effect: tool.EffectPossible, message: restoredMessage,
		}}
	}
	if err := s.moveInTx(ctx, tx, forgotten...); err != nil {
		return nil, err
	}
	if s.StopWork != nil {
		err = s.StopWork(ctx, tx)
	}
	return append(lost, forgotten...), err
}

// listSendable returns the calls that are approved, or claimed by a process.
func listSendable(ctx context.Context, tx pgx.Tx) (ids []uuid.UUID, err error) {
	open, err := readOpen(ctx, tx)
	for _, c := range open {
		if c.Status == Approved || c.ClaimedBy != nil {
			ids = append(ids, c.ID)
		}
	}
	return ids, err
}

// listUnconnected returns the calls that wait for a connection. It locks them if lock is "FOR UPDATE"; "" locks none.
func listUnconnected(ctx context.Context, tx pgx.Tx, lock string) ([]uuid.UUID, error) {
	ids, err := readIDs(ctx, tx, `SELECT id FROM calls WHERE status = 'needs_connection' `+lock)
	if err != nil {
		return nil, fmt.Errorf("find calls without a connection: %w", err)
	}
	return ids, nil
}

func (s *Service) reportRestored(ctx context.Context, reason string, lost []*move) {
	s.Logger.Warn("the database was restored: calls that may have been sent since the backup are unknown now", "reason", reason, "calls", len(lost))
	s.announceMoves(ctx, lost...)
}

// abandonRestored does what [Service.checkMark] does with a restored database, because the operator said that it is one.
func (s *Service) abandonRestored(ctx context.Context) error {
	var lost []*move
	err := postgres.InTx(ctx, s.vital, func(tx pgx.Tx) (err error) {
		lost, err = s.abandonInTx(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark calls of a restored database unknown: %w", err)
	}
	s.reportRestored(ctx, "--after-restore", lost)
	return nil
}
