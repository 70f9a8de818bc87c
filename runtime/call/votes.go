package call

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// findPolicies returns the policies that a call of a tool has to meet if it is parked: that of the tool or its skill, and those of rules.
func (s *Service) findPolicies(ctx context.Context, book *rule.Book, skill *agent.Skill, toolName string, applied []rule.Applied) ([]policy.Policy, error) {
	names := rule.ListPolicies(applied)
	if own := skill.PolicyOf(toolName); own != "" && !slices.Contains(names, own) {
		names = append([]string{own}, names...)
	}
	var policies []policy.Policy
	for _, name := range names {
		found, known := book.Policies[name]
		if !known { // the skill was read after a change, and the book before it
			newer, err := s.Agents.RulesSince(ctx, book.Revision+1)
			if err != nil {
				return nil, err
			}
			if found, known = newer.Policies[name]; !known {
				return nil, fmt.Errorf("policy %s does not exist", name)
			}
		}
		policies = append(policies, found)
	}
	return policies, nil
}

// hasPolicies reports whether the policies of an approval include all of needed, in the same versions.
func hasPolicies(a *approval.Approval, needed []policy.Policy) bool {
	return !slices.ContainsFunc(needed, func(p policy.Policy) bool {
		return !slices.ContainsFunc(a.Policies, func(frozen policy.Policy) bool { return frozen.Name == p.Name && frozen.Revision == p.Revision })
	})
}

// Tally is the votes on a call with policies, as they count now.
type Tally struct {
	Votes  []approval.Vote // also void ones, oldest first
	Voters []policy.Voter  // who approved, and still counts
	Lost   []uuid.UUID     // whose votes do not count any more: blocked, no longer reviewers, or with a revoked credential
	// Rejections counts the people who rejected the call, and still count.
	Rejections int
}

// Counts reports whether a vote on an approval counts now.
func (t *Tally) Counts(a *approval.Approval, v *approval.Vote) bool {
	return a.Counts(v) && !slices.Contains(t.Lost, v.By)
}

// readTally reads the votes on an approval and the present standing of the people. Two records of one person count once.
func readTally(ctx context.Context, db postgres.Batcher, a *approval.Approval) (*Tally, error) {
	t := &Tally{}
	first := &pgx.Batch{}
	approval.QueueVotes(first, a.CallID, &t.Votes)
	if err := db.SendBatch(ctx, first).Close(); err != nil {
		return nil, err
	}
	var valid []*approval.Vote
	var ids []uuid.UUID
	for i := range t.Votes {
		if v := &t.Votes[i]; a.Counts(v) {
			valid, ids = append(valid, v), append(ids, v.By)
		}
	}
	if len(valid) == 0 {
		return t, nil
	}
	people, standings, second := map[uuid.UUID]identity.Person{}, make([]identity.Standing, len(valid)), &pgx.Batch{}
	identity.QueuePeople(second, ids, people)
	for i, v := range valid {
		identity.QueueStanding(second, []uuid.UUID{v.By}, v.Via.Credential, a.CallID, &standings[i])
	}
	if err := db.SendBatch(ctx, second).Close(); err != nil {
		return nil, fmt.Errorf("read the voters on call %s: %w", a.CallID, err)
	}
	sames, err := identity.Sames(ctx, db, ids)
	if err != nil {
		return nil, err
	}
	counted := map[uuid.UUID]bool{}
	for i, v := range valid {
		person, known := people[v.By]
		if !known || len(standings[i].Blocked) > 0 || standings[i].Demoted || standings[i].Revoked {
			t.Lost = append(t.Lost, v.By)
			continue
		}
		who := v.By
		if same, linked := sames[who]; linked {
			who = same
		}
		if counted[who] {
			continue
		}
		counted[who] = true
		if v.Approves {
			t.Voters = append(t.Voters, newVoter(&person))
		} else {
			t.Rejections++
		}
	}
	return t, nil
}

func newVoter(p *identity.Person) policy.Voter {
	return policy.Voter{Person: p.ID, Teams: p.Teams, Names: p.UniqueNames()}
}

// vote is a reviewer's decision about a call with policies.
type vote struct {
	*Decision
	pending *approval.Approval // locked
	data    map[string]any     // of the audit event
	decides bool               // the decision is settled: all policies are met, or enough people rejected
}

// castVote adds a vote to a locked approval with policies. If a policy changed after the call was parked, the votes become void and the
// call is asked about again: then it returns approval.ErrPolicyChanged, and tx is to be committed.
// Other errors: approval.ErrOwnEdit, approval.ErrVoted, approval.ErrNotAsked.
func (s *Service) castVote(ctx context.Context, tx pgx.Tx, v *vote) error {
	a := v.pending
	if v.BreakGlass {
		return s.breakGlass(ctx, tx, v)
	}
	var present []policy.Policy
	people, batch := map[uuid.UUID]identity.Person{}, &pgx.Batch{}
	names := make([]string, len(a.Policies))
	for i := range a.Policies {
		names[i] = a.Policies[i].Name
	}
	agent.QueuePolicies(batch, names, &present)
	identity.QueuePeople(batch, []uuid.UUID{v.By}, people)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read policies of call %s: %w", a.CallID, err)
	}
	if !hasPolicies(a, present) {
		return s.replacePolicies(ctx, tx, a, present)
	}
	before, err := readTally(ctx, tx, a)
	if err != nil {
		return err
	}
	person := people[v.By]
	voter := newVoter(&person)
	if err := s.checkVoter(ctx, tx, v, before, &voter); err != nil {
		return err
	}
	v.data["digest"], v.data["note"] = a.Digest.String(), v.Note
	actor := audit.Person(v.By)
	err = approval.AddVote(ctx, tx, approval.Vote{
		CallID: a.CallID, Number: len(before.Votes) + 1, By: v.By, Approves: v.Approve, Digest: a.Digest, Note: v.Note, Seen: v.Seen,
		Via: audit.OriginOf(ctx, actor),
	})
	if err != nil {
		return err
	}
	after, err := readTally(ctx, tx, a)
	if err != nil {
		return err
	}
	action := audit.ApprovalVoted
	if v.Approve {
		v.decides = policy.AreMet(a.Policies, after.Voters)
	} else {
		action, v.decides = audit.ApprovalVotedAgainst, after.Rejections >= policy.CountRejections(a.Policies)
	}
	v.data["votes"] = len(after.Voters)
	if v.decides {
		return nil
	}
	return audit.Write(ctx, tx, audit.Event{Actor: actor, Action: action, Subject: a.CallID, Data: v.data})
}

// checkVoter returns an error if a person's vote would not count.
func (s *Service) checkVoter(ctx context.Context, tx pgx.Tx, v *vote, before *Tally, voter *policy.Voter) error {
	a := v.pending
	for i := range before.Votes {
		if !a.Counts(&before.Votes[i]) {
			continue
		}
		one, err := s.mayBeEditor(ctx, tx, before.Votes[i].By, v.By)
		if err == nil && one {
			err = approval.ErrVoted
		}
		if err != nil {
			return err
		}
	}
	if !v.Approve {
		return nil
	}
	if err := s.checkNotEditor(ctx, tx, v); err != nil {
		return err
	}
	if !policy.Ask(a.Policies, voter) {
		return approval.ErrNotAsked
	}
	return nil
}

// checkNotEditor returns an error if a person who approves may be the one who edited the arguments.
func (s *Service) checkNotEditor(ctx context.Context, tx pgx.Tx, v *vote) error {
	if v.pending.EditedBy == uuid.Nil {
		return nil
	}
	own, err := s.mayBeEditor(ctx, tx, v.pending.EditedBy, v.By)
	if err == nil && own {
		err = approval.ErrOwnEdit
	}
	return err
}

// breakGlass lets one person approve a call alone.
func (s *Service) breakGlass(ctx context.Context, tx pgx.Tx, v *vote) error {
	switch {
	case !policy.AllowBreakGlass(v.pending.Policies):
		return approval.ErrNoBreakGlass
	case v.Note == "":
		return fault.Invalid("note", "must say why one person approves alone")
	}
	v.decides, v.data["break_glass"], v.data["note"] = true, true, v.Note
	return s.checkNotEditor(ctx, tx, v)
}

// ReviewGlass records that a person reviewed an approval that another one gave alone.
// Errors: approval.ErrNotFound, approval.ErrGlassReviewed, approval.ErrOwnGlass, approval.ErrSelfApproval, approval.ErrInvitedApproval.
func (s *Service) ReviewGlass(ctx context.Context, id, by uuid.UUID, note string) (Waiting, error) {
	var reviewed approval.Approval
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, _, err := approval.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.checkConflictOfInterest(ctx, tx, &a, by); err != nil {
			return err
		}
		own, err := s.mayBeEditor(ctx, tx, a.DecidedBy, by)
		if err == nil && own {
			err = approval.ErrOwnGlass
		}
		if err != nil {
			return err
		}
		if reviewed, err = approval.ReviewGlass(ctx, tx, a, by, note); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.ApprovalGlassReviewed, Subject: id, Data: map[string]any{"digest": a.Digest.String(), "note": note},
		})
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("review approval %s: %w", id, err)
	}
	return s.withCall(ctx, reviewed)
}

// replacePolicies gives a pending approval the present versions of its policies, without votes. It keeps policies that were deleted.
func (s *Service) replacePolicies(ctx context.Context, tx pgx.Tx, a *approval.Approval, present []policy.Policy) error {
	policies := slices.Clone(a.Policies)
	for i := range policies {
		if at := slices.IndexFunc(present, func(p policy.Policy) bool { return p.Name == policies[i].Name }); at >= 0 {
			policies[i] = present[at]
		}
	}
	var err error
	if *a, err = approval.ReplacePolicies(ctx, tx, *a, policies); err != nil {
		return err
	}
	err = audit.Write(ctx, tx, audit.Event{
		Actor: audit.System(), Action: audit.ApprovalPolicyChanged, Subject: a.CallID, Data: map[string]any{"policies": listVersions(policies)},
	})
	if err != nil {
		return err
	}
	return approval.ErrPolicyChanged
}

// listVersions returns the names and revisions of policies, for the audit log.
func listVersions(policies []policy.Policy) map[string]int64 {
	list := make(map[string]int64, len(policies))
	for i := range policies {
		list[policies[i].Name] = policies[i].Revision
	}
	return list
}

// takeVoteBack makes the vote of a person on a locked, pending approval void. Errors: approval.ErrNoVote.
func takeVoteBack(ctx context.Context, tx pgx.Tx, a *approval.Approval, by uuid.UUID) error {
	n, err := approval.VoidVotes(ctx, tx, a.CallID, by)
	if err != nil {
		return err
	}
	if n == 0 {
		return approval.ErrNoVote
	}
	return audit.Write(ctx, tx, audit.Event{
		Actor: audit.Person(by), Action: audit.ApprovalVoteTakenBack, Subject: a.CallID, Data: map[string]any{"digest": a.Digest.String()},
	})
}

// recheckVotes returns a refusal if the votes on an approved call do not meet its policies any more.
func (s *Service) recheckVotes(ctx context.Context, decided *approval.Approval) (*refusal, error) {
	if len(decided.Policies) == 0 || decided.BrokeGlass {
		return nil, nil
	}
	t, err := readTally(ctx, s.Pool, decided)
	if err != nil || policy.AreMet(decided.Policies, t.Voters) {
		return nil, err
	}
	return newDenial(CodeReviewerRemoved, "the approvals that still count do not meet the policy of the call"), nil
}

// Tallies returns the votes on approvals that have policies, by call.
func (s *Service) Tallies(ctx context.Context, approvals ...*approval.Approval) (map[uuid.UUID]*Tally, error) {
	tallies := map[uuid.UUID]*Tally{}
	for _, a := range approvals {
		if len(a.Policies) == 0 {
			continue
		}
		var err error
		if tallies[a.CallID], err = readTally(ctx, s.Pool, a); err != nil {
			return nil, err
		}
	}
	return tallies, nil
}
