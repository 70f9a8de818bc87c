package call

import (
	"cmp"
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
	Lost   []uuid.UUID     // whose votes do not count any more: blocked, no longer reviewers, limited to other calls, or with a revoked credential
	// Rejections counts the people who rejected the call, and still count.
	Rejections int
}

// Counts reports whether a vote on an approval counts now.
func (t *Tally) Counts(a *approval.Approval, v *approval.Vote) bool {
	return a.Counts(v) && !slices.Contains(t.Lost, v.By)
}

// readTally reads the votes on an approval and the present standing of the people. Two records of one person count once.
func readTally(ctx context.Context, db postgres.Batcher, a *approval.Approval) (*Tally, error) {
	tallies, err := readTallies(ctx, db, a)
	return tallies[a.CallID], err
}

// readTallies is [readTally] for several approvals, in as many round trips as for one.
func readTallies(ctx context.Context, db postgres.Batcher, approvals ...*approval.Approval) (map[uuid.UUID]*Tally, error) {
	calls := make([]uuid.UUID, len(approvals))
	for i, a := range approvals {
		calls[i] = a.CallID
	}
	votes, err := approval.ListVotes(ctx, db, calls)
	if err != nil {
		return nil, err
	}
	tallies, second := make(map[uuid.UUID]*Tally, len(approvals)), &pgx.Batch{}
	who := &electorate{people: map[uuid.UUID]identity.Person{}, standings: map[*approval.Vote]*identity.Standing{}}
	var ids, named []uuid.UUID
	for _, a := range approvals {
		t := &Tally{Votes: votes[a.CallID]}
		tallies[a.CallID], named = t, append(named, a.AgentID, a.SkillID)
		for i := range t.Votes {
			if v := &t.Votes[i]; a.Counts(v) {
				ids, who.standings[v] = append(ids, v.By), &identity.Standing{}
				identity.QueueStanding(second, []uuid.UUID{v.By}, v.Via.Credential, a.CallID, who.standings[v])
			}
		}
	}
	if len(ids) == 0 {
		return tallies, nil
	}
	identity.QueuePeople(second, ids, who.people)
	identity.QueueMemberships(second, ids, nil, &who.memberships)
	if err := db.SendBatch(ctx, second).Close(); err != nil {
		return nil, fmt.Errorf("read voters: %w", err)
	}
	if who.sames, err = identity.Sames(ctx, db, ids); err != nil {
		return nil, err
	}
	names, err := agent.Names(ctx, db, named)
	if err != nil {
		return nil, err
	}
	for _, a := range approvals {
		tallies[a.CallID].count(scopeOf(a, names[a.AgentID], names[a.SkillID]), who)
	}
	return tallies, nil
}

// electorate is what is known about the people who voted on some calls.
type electorate struct {
	people      map[uuid.UUID]identity.Person
	standings   map[*approval.Vote]*identity.Standing
	memberships []identity.Membership // at this moment
	sames       map[uuid.UUID]uuid.UUID
}

// place is a member's place in a team, which the member or one other person takes.
type place struct {
	member uuid.UUID
	team   string
}

// teamsOf returns the teams in which the approval of a person counts. A place that was given to the person counts if nobody took it before.
func (e *electorate) teamsOf(person uuid.UUID, taken map[place]bool) []string {
	var teams []string
	for i := range e.memberships {
		m := &e.memberships[i]
		at := place{m.Person, m.Team}
		if m.For != uuid.Nil {
			at.member = m.For
		}
		if m.Person == person && m.Counts() && (m.For == uuid.Nil || !taken[at]) {
			taken[at] = true
			teams = append(teams, m.Team)
		}
	}
	return teams
}

// count counts the votes. Own places come before those that were given to others.
func (t *Tally) count(scope identity.Scope, who *electorate) {
	counted, taken := map[uuid.UUID]bool{}, map[place]bool{}
	for i := range t.Votes {
		if _, counts := who.standings[&t.Votes[i]]; counts && t.Votes[i].Approves {
			for j := range who.memberships {
				if m := &who.memberships[j]; m.Person == t.Votes[i].By && m.For == uuid.Nil {
					taken[place{m.Person, m.Team}] = true
				}
			}
		}
	}
	for i := range t.Votes {
		v := &t.Votes[i]
		standing, counts := who.standings[v]
		if !counts {
			continue
		}
		person, known := who.people[v.By]
		if !known || len(standing.Blocked) > 0 || standing.Demoted || standing.Revoked || !standing.Covers(v.By, scope) {
			t.Lost = append(t.Lost, v.By)
			continue
		}
		one := v.By
		if same, linked := who.sames[one]; linked {
			one = same
		}
		if counted[one] {
			continue
		}
		counted[one] = true
		if v.Approves {
			t.Voters = append(t.Voters, newVoter(&person, who.teamsOf(v.By, taken)))
		} else {
			t.Rejections++
		}
	}
}

func newVoter(p *identity.Person, teams []string) policy.Voter {
	return policy.Voter{Person: p.ID, Teams: teams, Names: p.UniqueNames()}
}

// ReadVoters returns people as voters: with the teams in which their approvals would count at this moment, each alone.
func ReadVoters(ctx context.Context, db postgres.Batcher, people ...uuid.UUID) ([]policy.Voter, error) {
	who, batch := electorate{people: map[uuid.UUID]identity.Person{}}, &pgx.Batch{}
	identity.QueuePeople(batch, people, who.people)
	identity.QueueMemberships(batch, people, nil, &who.memberships)
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("read voters: %w", err)
	}
	voters := make([]policy.Voter, len(people))
	for i, id := range people {
		p := who.people[id]
		voters[i] = newVoter(&p, who.teamsOf(id, map[place]bool{}))
	}
	return voters, nil
}

// vote is a reviewer's decision about a call with policies.
type vote struct {
	*Decision
	pending *approval.Approval // locked
	data    map[string]any     // of the audit event
	decides bool               // the decision is settled: all policies are met, or enough people rejected
	skipped *Attention         // to those whom the decision skips; nil: it skips nobody
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
	batch := &pgx.Batch{}
	names := make([]string, len(a.Policies))
	for i := range a.Policies {
		names[i] = a.Policies[i].Name
	}
	agent.QueuePolicies(batch, names, &present)
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
	voters, err := ReadVoters(ctx, tx, v.By)
	if err != nil {
		return err
	}
	if err := s.checkVoter(ctx, tx, v, before, &voters[0]); err != nil {
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
	if err := s.checkNotEditor(ctx, tx, v); err != nil {
		return err
	}
	var err error
	v.skipped, err = prepareSkipped(ctx, tx, v)
	return err
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
		err = audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.ApprovalGlassReviewed, Subject: id, Data: map[string]any{"digest": a.Digest.String(), "note": note},
		})
		if err != nil {
			return err
		}
		return s.notifyPeople(ctx, tx, newSettledAttention(reviewed))
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
	notice, err := nameAttention(ctx, tx, Waits, a)
	if err == nil {
		err = s.notifyPeople(ctx, tx, notice)
	}
	return cmp.Or(err, approval.ErrPolicyChanged)
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
	approvals = slices.DeleteFunc(slices.Clone(approvals), func(a *approval.Approval) bool { return len(a.Policies) == 0 })
	if len(approvals) == 0 {
		return nil, nil
	}
	return readTallies(ctx, s.Pool, approvals...)
}
