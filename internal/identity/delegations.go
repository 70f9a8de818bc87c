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
)

// Delegation makes a person a member of a team until a time.
type Delegation struct {
	ID     uuid.UUID
	Team   string
	Person uuid.UUID
	// Member gave the delegation, which counts only while they are a member themselves. uuid.Nil: an operator gave it.
	Member    uuid.UUID
	Ends      time.Time
	CreatedAt time.Time
	CreatedBy uuid.UUID // uuid.Nil: the system
}

// NewDelegation describes a delegation to be made.
type NewDelegation struct {
	Team   string
	Person uuid.UUID
	Member uuid.UUID // uuid.Nil: an operator gives it
	Ends   time.Time
}

// ErrNotMember means that only operators and members of a team delegate it.
var ErrNotMember = errors.New("only operators and members of a team can delegate it")

// ErrSelfDelegation means that people do not make themselves members of a team.
var ErrSelfDelegation = errors.New("you cannot delegate a team to yourself: another operator or member can")

// Delegate adds a delegation. Whether by is an operator, or the member, is up to the caller. Errors: [ErrNotFound], [ErrNotMember],
// [ErrSelfDelegation], *[fault.InvalidError].
func (s *Service) Delegate(ctx context.Context, by audit.Actor, n NewDelegation) (Delegation, error) {
	made, err := s.delegate(ctx, by, n)
	if err != nil {
		return Delegation{}, fmt.Errorf("delegate a team to person %s: %w", n.Person, err)
	}
	return made, nil
}

func (s *Service) delegate(ctx context.Context, by audit.Actor, n NewDelegation) (Delegation, error) {
	if err := CheckTeam(n.Team); err != nil {
		return Delegation{}, err
	}
	if err := s.checkReviewer(ctx, "person", n.Person); err != nil {
		return Delegation{}, err
	}
	var made Delegation
	err := s.changeDuties(ctx, func(tx pgx.Tx) error {
		if by.Kind == audit.KindPerson {
			tied, err := isTied(ctx, tx, by.ID, n.Person)
			if err != nil {
				return err
			}
			if tied {
				return ErrSelfDelegation
			}
		}
		now, known, err := readNowAnd(ctx, tx, `SELECT holdpoint_now(), (SELECT count(*) FROM delegations WHERE person_id = $1 AND ends_at > holdpoint_now())`, n.Person)
		if err != nil {
			return err
		}
		if err := checkSpan(now, n.Ends); err != nil {
			return err
		}
		if known >= maxDelegations {
			return fault.Invalid("person", fmt.Sprintf("has %d delegations already; end one first", known))
		}
		if n.Member != uuid.Nil {
			member, err := s.readMember(ctx, tx, n.Member)
			if err != nil {
				return err
			}
			if member.BlockedAt != nil || !slices.Contains(member.Teams, n.Team) {
				return ErrNotMember
			}
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		made, err = postgres.CollectOne(ctx, tx, scanDelegation, `INSERT INTO delegations (id, team, person_id, member_id, ends_at, created_by)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING `+delegationColumns,
			id, n.Team, n.Person, postgres.OrNull(n.Member), n.Ends, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.DelegationCreated, Subject: n.Person,
			Data: map[string]any{"delegation": id, "team": n.Team, "ends": made.Ends.UTC(), "by_member": n.Member != uuid.Nil},
		})
	})
	return made, err
}

// CheckTeam refuses names that no team can have. The error is about the field team.
func CheckTeam(team string) error {
	if validTeam(team) != nil {
		return fault.Invalid("team", fmt.Sprintf("must be 1 to %d bytes of printable text without white space at its ends", maxName))
	}
	return nil
}

// EndDelegation ends a delegation now. by is who may end it: the member who gave it, or its person; uuid.Nil: anyone. Error: [ErrNotFound].
func (s *Service) EndDelegation(ctx context.Context, actor audit.Actor, by, id uuid.UUID) error {
	err := endDuty(ctx, s, func(tx pgx.Tx) (Delegation, error) {
		return postgres.CollectOne(ctx, tx, scanDelegation, `UPDATE delegations SET ends_at = holdpoint_now()
			WHERE id = $1 AND ends_at > holdpoint_now() AND ($2::uuid IS NULL OR member_id = $2 OR person_id = $2) RETURNING `+delegationColumns, id, postgres.OrNull(by))
	}, func(d Delegation) audit.Event {
		return audit.Event{Actor: actor, Action: audit.DelegationEnded, Subject: d.Person, Data: map[string]any{"delegation": id, "team": d.Team}}
	})
	if err != nil {
		return fmt.Errorf("end delegation %s: %w", id, err)
	}
	return nil
}

// Delegations returns delegations that have not ended, by team and end.
func (s *Service) Delegations(ctx context.Context) ([]Delegation, error) {
	found, err := postgres.Collect(ctx, s.pool, scanDelegation, `SELECT `+delegationColumns+` FROM delegations
		WHERE ends_at > holdpoint_now() ORDER BY team, ends_at, id LIMIT 1000`)
	if err != nil {
		return nil, fmt.Errorf("list delegations: %w", err)
	}
	return found, nil
}

const delegationColumns = `id, team, person_id, member_id, ends_at, created_at, created_by`

func scanDelegation(row pgx.CollectableRow) (Delegation, error) {
	var d Delegation
	var member, by *uuid.UUID
	err := row.Scan(&d.ID, &d.Team, &d.Person, &member, &d.Ends, &d.CreatedAt, &by)
	d.Member, d.CreatedBy = postgres.OrNil(member), postgres.OrNil(by)
	return d, err
}
