package call

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// Lack is why a call cannot be approved by the people who are reviewers now. The zero value: it can.
type Lack struct {
	Nobody    bool              // no reviewer may decide the call
	Shortages []policy.Shortage // lines of its policies that too few people can meet
}

// IsAny reports whether anything lacks.
func (l *Lack) IsAny() bool { return l.Nobody || len(l.Shortages) > 0 }

// kind returns the kind of the notice about a new approval.
func (l *Lack) kind() AttentionKind {
	if l.Nobody {
		return Alone
	}
	return Unmeetable
}

// auditEvent returns the event about a new approval.
func (l *Lack) auditEvent(callID uuid.UUID) audit.Event {
	e := audit.Event{Actor: audit.System(), Action: audit.ApprovalNoReviewer, Subject: callID}
	var lines []map[string]any
	for i := range l.Shortages {
		one := &l.Shortages[i]
		lines = append(lines, map[string]any{"policy": one.Policy, "needs": one.Line.String(), "able": one.Able})
	}
	if len(lines) > 0 {
		e.Data = map[string]any{"lacks": lines}
	}
	return e
}

// HasReviewer reports whether the present reviewers can approve a call: somebody may decide it, and they can meet its policies.
func (s *Service) HasReviewer(ctx context.Context, a *approval.Approval) (bool, error) {
	lack, err := s.FindLack(ctx, a)
	return !lack.IsAny(), err
}

// FindLack returns why the present reviewers cannot approve a call.
func (s *Service) FindLack(ctx context.Context, a *approval.Approval) (Lack, error) {
	lacks, err := s.FindLacks(ctx, a)
	return lacks[a.CallID], err
}

// judges is what two calls have in common that the same people may decide.
type judges struct {
	principal, agent, skill, editor uuid.UUID
	teams, policies                 string
}

func judgesOf(a *approval.Approval) judges {
	return judges{
		principal: a.PrincipalID, agent: a.AgentID, skill: a.SkillID, editor: a.EditedBy,
		teams: fmt.Sprintf("%q %q", a.ListTeams(), a.EscalateTo), policies: fmt.Sprint(listVersions(a.Policies)),
	}
}

// FindLacks is [Service.FindLack] for several calls. It omits those that lack nothing. What policies need is read at once.
func (s *Service) FindLacks(ctx context.Context, approvals ...*approval.Approval) (map[uuid.UUID]Lack, error) {
	if s.ListDeciders == nil {
		return nil, nil
	}
	able, people := map[judges][]uuid.UUID{}, []uuid.UUID{}
	for _, a := range approvals {
		of := judgesOf(a)
		if _, known := able[of]; known {
			continue
		}
		deciders, err := s.ListDeciders(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("search for reviewers: %w", err)
		}
		if able[of] = deciders; len(a.Policies) > 0 {
			people = append(people, deciders...)
		}
	}
	voters, err := s.readAble(ctx, people)
	if err != nil {
		return nil, fmt.Errorf("search for reviewers: %w", err)
	}
	lacks, found := map[uuid.UUID]Lack{}, map[judges]Lack{}
	for _, a := range approvals {
		of := judgesOf(a)
		lack, known := found[of]
		if !known {
			lack = Lack{Nobody: len(able[of]) == 0}
			if !lack.Nobody && len(a.Policies) > 0 {
				lack.Shortages = policy.FindShortages(a.Policies, voters.choose(able[of], a.EditedBy))
			}
			found[of] = lack
		}
		if lack.IsAny() {
			lacks[a.CallID] = lack
		}
	}
	return lacks, nil
}

// ablePeople are people as voters, by their ids.
type ablePeople struct {
	voters map[uuid.UUID]policy.Voter
	sames  map[uuid.UUID]uuid.UUID
}

func (s *Service) readAble(ctx context.Context, people []uuid.UUID) (*ablePeople, error) {
	able := &ablePeople{voters: make(map[uuid.UUID]policy.Voter, len(people))}
	if len(people) == 0 {
		return able, nil
	}
	slices.SortFunc(people, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	people = slices.Compact(people)
	voters, err := ReadVoters(ctx, s.Pool, people...)
	if err != nil {
		return nil, err
	}
	for _, v := range voters {
		able.voters[v.Person] = v
	}
	able.sames, err = identity.Sames(ctx, s.Pool, people)
	return able, err
}

// choose returns these people as voters, without the editor of the arguments. Two records of one person are one voter.
func (p *ablePeople) choose(people []uuid.UUID, editor uuid.UUID) []policy.Voter {
	self := func(id uuid.UUID) uuid.UUID {
		if same, linked := p.sames[id]; linked {
			return same
		}
		return id
	}
	var chosen []policy.Voter
	at := map[uuid.UUID]int{}
	for _, id := range people {
		one, v := self(id), p.voters[id]
		if editor != uuid.Nil && one == self(editor) {
			continue
		}
		i, known := at[one]
		if !known {
			at[one] = len(chosen)
			chosen = append(chosen, v)
			continue
		}
		chosen[i].Teams, chosen[i].Names = slices.Concat(chosen[i].Teams, v.Teams), slices.Concat(chosen[i].Names, v.Names)
	}
	return chosen
}

// maxUnmeetable bounds the calls that [Service.CountUnmeetable] looks at.
const maxUnmeetable = 10_000

// CountUnmeetable counts the pending calls whose policies the present reviewers cannot meet.
func (s *Service) CountUnmeetable(ctx context.Context) (int, error) {
	found, err := approval.ListWithPolicies(ctx, s.Pool, maxUnmeetable)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	pending := make([]*approval.Approval, len(found))
	for i := range found {
		pending[i] = &found[i]
	}
	lacks, err := s.FindLacks(ctx, pending...)
	return len(lacks), err
}

// prepareSkipped builds the notice for those whom one person skips who approves a call alone: whom the policies ask for approvals that were
// missing.
func prepareSkipped(ctx context.Context, tx pgx.Tx, v *vote) (*Attention, error) {
	before, err := readTally(ctx, tx, v.pending)
	if err != nil {
		return nil, err
	}
	n, err := nameAttention(ctx, tx, BrokeGlass, v.pending)
	n.Deadline, n.By, n.Asked = time.Time{}, v.By, v.pending.SkippedAudience(before.Voters)
	return &n, err
}
