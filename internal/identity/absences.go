package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Absence is a time in which a person is away. Meanwhile the substitute is asked what the person is asked.
type Absence struct {
	ID         uuid.UUID
	Person     uuid.UUID
	Substitute uuid.UUID // uuid.Nil: none
	Starts     time.Time
	Ends       time.Time
	CreatedAt  time.Time
	CreatedBy  uuid.UUID // uuid.Nil: the system
}

// NewAbsence describes an absence to be made.
type NewAbsence struct {
	Person     uuid.UUID
	Substitute uuid.UUID // uuid.Nil: none
	Starts     time.Time // zero: now
	Ends       time.Time
}

const (
	maxAbsence     = 366 * 24 * time.Hour
	maxAbsences    = 20 // of a person that have not ended
	maxDelegations = 50 // to a person that have not ended
)

// AddAbsence adds an absence. Whether by may do so for the person is up to the caller. Errors: [ErrNotFound], *[fault.InvalidError].
func (s *Service) AddAbsence(ctx context.Context, by audit.Actor, n NewAbsence) (Absence, error) {
	if n.Substitute != uuid.Nil {
		if err := s.checkReviewer(ctx, "substitute", n.Substitute); err != nil {
			return Absence{}, fmt.Errorf("add an absence of person %s: %w", n.Person, err)
		}
	}
	var added Absence
	err := s.changeDuties(ctx, func(tx pgx.Tx) error {
		if _, err := s.readMember(ctx, tx, n.Person); err != nil {
			return err
		}
		if n.Substitute != uuid.Nil {
			same, err := Same(ctx, tx, n.Person, n.Substitute)
			if err != nil {
				return err
			}
			if same {
				return fault.Invalid("substitute", "must be another person")
			}
		}
		now, known, err := readNowAnd(ctx, tx, `SELECT holdpoint_now(), (SELECT count(*) FROM absences WHERE person_id = $1 AND ends_at > holdpoint_now())`, n.Person)
		if err != nil {
			return err
		}
		if n.Starts.IsZero() || n.Starts.Before(now) {
			n.Starts = now
		}
		if err := checkSpan(n.Starts, n.Ends); err != nil {
			return err
		}
		if known >= maxAbsences {
			return fault.Invalid("ends", fmt.Sprintf("there are %d absences already; end one first", known))
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		added, err = postgres.CollectOne(ctx, tx, scanAbsence, `INSERT INTO absences (id, person_id, substitute_id, starts_at, ends_at, created_by)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING `+absenceColumns,
			id, n.Person, postgres.OrNull(n.Substitute), n.Starts, n.Ends, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		data := map[string]any{"absence": id, "starts": added.Starts.UTC(), "ends": added.Ends.UTC()}
		if n.Substitute != uuid.Nil {
			data["substitute"] = n.Substitute
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.AbsenceCreated, Subject: n.Person, Data: data})
	})
	if err != nil {
		return Absence{}, fmt.Errorf("add an absence of person %s: %w", n.Person, err)
	}
	return added, nil
}

// readNowAnd reads the clock and a number.
func readNowAnd(ctx context.Context, tx pgx.Tx, sql string, args ...any) (now time.Time, n int, err error) {
	err = tx.QueryRow(ctx, sql, args...).Scan(&now, &n)
	return now, n, err
}

// checkSpan validates a time with an end.
func checkSpan(starts, ends time.Time) error {
	if !ends.After(starts) {
		return fault.Invalid("ends", "must be in the future, and after the start")
	}
	if ends.Sub(starts) > maxAbsence {
		return fault.Invalid("ends", "must be within a year of the start")
	}
	return nil
}

// checkReviewer refuses a person who may not decide: to be asked gives no role.
func (s *Service) checkReviewer(ctx context.Context, field string, person uuid.UUID) error {
	reviewers, err := s.Reviewers(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(reviewers, func(e Eligible) bool { return e.Person == person }) {
		return fault.Invalid(field, "must be a reviewer")
	}
	return nil
}

// EndAbsence ends an absence now, or removes one that has not begun. person is whose it must be; uuid.Nil: anybody's. Error: [ErrNotFound].
func (s *Service) EndAbsence(ctx context.Context, by audit.Actor, person, id uuid.UUID) error {
	err := endDuty(ctx, s, func(tx pgx.Tx) (Absence, error) {
		a, err := postgres.CollectOne(ctx, tx, scanAbsence, `SELECT `+absenceColumns+` FROM absences
			WHERE id = $1 AND ends_at > holdpoint_now() AND ($2::uuid IS NULL OR person_id = $2) FOR UPDATE`, id, postgres.OrNull(person))
		if err != nil {
			return a, err
		}
		tag, err := tx.Exec(ctx, `UPDATE absences SET ends_at = holdpoint_now() WHERE id = $1 AND starts_at < holdpoint_now()`, id)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = tx.Exec(ctx, `DELETE FROM absences WHERE id = $1`, id)
		}
		return a, err
	}, func(a Absence) audit.Event {
		return audit.Event{Actor: by, Action: audit.AbsenceEnded, Subject: a.Person, Data: map[string]any{"absence": id}}
	})
	if err != nil {
		return fmt.Errorf("end absence %s: %w", id, err)
	}
	return nil
}

// Absences returns absences that have not ended, by their start; of one person, or of all if person is uuid.Nil.
func (s *Service) Absences(ctx context.Context, person uuid.UUID) ([]Absence, error) {
	found, err := postgres.Collect(ctx, s.pool, scanAbsence, `SELECT `+absenceColumns+` FROM absences
		WHERE ends_at > holdpoint_now() AND ($1::uuid IS NULL OR person_id = $1) ORDER BY starts_at, id LIMIT 1000`, postgres.OrNull(person))
	if err != nil {
		return nil, fmt.Errorf("list absences: %w", err)
	}
	return found, nil
}

const absenceColumns = `id, person_id, substitute_id, starts_at, ends_at, created_at, created_by`

func scanAbsence(row pgx.CollectableRow) (Absence, error) {
	var a Absence
	var substitute, by *uuid.UUID
	err := row.Scan(&a.ID, &a.Person, &substitute, &a.Starts, &a.Ends, &a.CreatedAt, &by)
	a.Substitute, a.CreatedBy = postgres.OrNil(substitute), postgres.OrNil(by)
	return a, err
}

// endDuty ends an absence or a delegation, and records it. If end finds none, the result is [ErrNotFound].
func endDuty[D any](ctx context.Context, s *Service, end func(pgx.Tx) (D, error), event func(D) audit.Event) error {
	return s.changeDuties(ctx, func(tx pgx.Tx) error {
		ended, err := end(tx)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, event(ended))
	})
}

// changeDuties runs f in a transaction and drops the caches of all processes.
func (s *Service) changeDuties(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err == nil {
		s.duties.Drop()
	}
	return err
}
