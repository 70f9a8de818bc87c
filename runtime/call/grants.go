package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// findGrants returns the grants that let a call pass which would be parked, in the order in which they should be used. A call that several people
// have to approve, or that a rule counts, takes none.
func (s *Service) findGrants(ctx context.Context, c *Call, a *admission) ([]uuid.UUID, error) {
	if explainNoGrants(c, a) != "" {
		return nil, nil
	}
	book, err := s.Agents.Grants(ctx)
	if err != nil {
		return nil, err
	}
	found := book.Find(&grant.Spec{AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool, Pin: c.Pin}, c.Arguments)
	if c.took == uuid.Nil || slices.Contains(found, c.took) {
		return found, nil
	}
	// A call that waited for a connection has taken a use before. The grant may be used up since.
	taken, err := s.Agents.GetGrant(ctx, c.took)
	if errors.Is(err, agent.ErrNotFound) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	pattern, err := grant.Compile(taken.Arguments)
	if err == nil && taken.State == agent.GrantUsedUp && tool.Pin(taken.Pin) == c.Pin && pattern.Matches(c.Arguments) {
		found = append([]uuid.UUID{c.took}, found...)
	}
	return found, nil
}

// explainNoGrants returns why no grant lets a call pass that would be parked. Empty: a grant may.
func explainNoGrants(c *Call, a *admission) string {
	switch {
	case a.open != nil:
		return "a rule counts earlier calls when it is made"
	case len(a.policies) > 0:
		return "an approval policy decides about it: " + a.policies[0].Name
	case !a.skill.TakesGrants(a.definition):
		return "the tool is destructive, of high risk or has an approval policy, and no operator allows grants for it"
	case !a.verdict.AllowsGrants(a.skill.Tools[c.Tool].Grants):
		return "a rule, or a new or changed definition of the tool, asks a person about each call"
	case len(c.Files) > 0:
		return "it has attached files"
	case c.GateOrigin().Subject != nil: // who may be the person that made the grant
		return "a gateway names for whom it is made, and a grant is not bound to that"
	}
	return ""
}

// errGrantGone means that a grant no longer counted when a use was about to be taken.
var errGrantGone = errors.New("the grant no longer counts")

// submitGranted records and sends a call that a grant lets pass. If none counts any more, the call is parked.
func (s *Service) submitGranted(ctx context.Context, c *Call, sub *Submission, a *admission) (Ticket, error) {
	for _, id := range a.grants {
		c.GrantID = id
		ticket, err := s.submitDirect(ctx, c, sub, a)
		if !errors.Is(err, errGrantGone) {
			return ticket, err
		}
	}
	s.Agents.DropGrants()
	c.GrantID, c.claimedBy, c.awaited = uuid.Nil, uuid.Nil, false
	return s.submitParked(ctx, c, sub, a)
}

// takeGrants takes the uses of grants for inserted calls. It removes the calls whose grant no longer counts, which get [errGrantGone], and returns
// the others. all are the items of the transaction.
func (s *Service) takeGrants(ctx context.Context, tx pgx.Tx, all, inserted []*intakeItem) ([]*intakeItem, error) {
	wanted, began := map[uuid.UUID][]uuid.UUID{}, s.Now()
	for _, item := range inserted {
		if item.call.GrantID != uuid.Nil {
			wanted[item.call.GrantID] = append(wanted[item.call.GrantID], item.call.ID)
		}
	}
	if len(wanted) == 0 {
		return inserted, nil
	}
	left, err := agent.TakeGrants(ctx, tx, wanted, planGoesOn)
	if err != nil {
		return nil, err
	}
	var passed []*intakeItem
	var gone []uuid.UUID
	for _, item := range inserted {
		switch id := item.call.GrantID; {
		case id == uuid.Nil:
		case left[id] > 0:
			left[id]--
			item.call.granted = began
		default:
			item.err = errGrantGone
			gone = append(gone, item.call.ID)
			continue
		}
		passed = append(passed, item)
	}
	for _, item := range all {
		if item.err == nil && item.ticket.Attached && slices.Contains(gone, item.ticket.ID) {
			item.err = errAttachedGone
		}
	}
	if len(gone) > 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM calls WHERE id = ANY($1)`, gone); err != nil {
			return nil, fmt.Errorf("remove calls without a grant: %w", err)
		}
	}
	return passed, nil
}

// takeGrant takes a use of a grant for a call that waited for a connection, unless the call has taken it before. Error: errGrantGone.
func (s *Service) takeGrant(ctx context.Context, tx pgx.Tx, c *Call) error {
	began, counts := s.Now(), false
	if c.took == c.GrantID {
		if err := tx.QueryRow(ctx, `SELECT `+agent.GrantStands("$1::uuid"), c.GrantID).Scan(&counts); err != nil {
			return fmt.Errorf("read grant: %w", err)
		}
	} else {
		took, err := agent.TakeGrants(ctx, tx, map[uuid.UUID][]uuid.UUID{c.GrantID: {c.ID}}, planGoesOn)
		if err != nil {
			return err
		}
		counts = took[c.GrantID] > 0
	}
	if !counts {
		return errGrantGone
	}
	c.granted = began
	return nil
}

// grantAge is how long a call that a grant let pass may be sent after the grant was read. With the time that a request takes to leave, a
// revocation counts within a second.
const grantAge = 500 * time.Millisecond

// errGrantRevoked means that the grant which let a call pass no longer stands.
var errGrantRevoked = errors.New("the grant was revoked")

// isGrantStale reports whether the grant that let a call pass has to be read again before the call is sent.
func (s *Service) isGrantStale(c *Call) bool {
	return c.GrantID != uuid.Nil && elapsedTime(s.Now(), c.granted) >= grantAge
}

// revokedOutcome returns the outcome of a call whose grant was revoked before it was sent.
func revokedOutcome() outcome {
	return outcome{
		status: Denied, code: CodeGrantRevoked, effect: tool.EffectNone,
		message: "the grant that let the call pass was revoked before the call was sent; make the call again to have it approved",
	}
}

// Errors about grants.
var (
	// ErrNoGrants: calls like this one take no grants.
	ErrNoGrants = errors.New("calls like this one take no grants")
	// ErrOwnGrant: the second person must not be the first.
	ErrOwnGrant = errors.New("another person must confirm this grant")
)

// noGrants is an [ErrNoGrants] with its reason.
type noGrants string

func (e noGrants) Error() string { return ErrNoGrants.Error() + ": " + string(e) }

func (noGrants) Is(target error) bool { return target == ErrNoGrants }

// GrantRequest asks for a grant from a call.
type GrantRequest struct {
	CallID    uuid.UUID
	Arguments *[]grant.Matcher // nil: exactly those of the call
	Time      time.Duration    // zero: the default
	Uses      *int64           // nil: any number
}

// GrantPreview says what a grant would allow.
type GrantPreview struct {
	Call      Call
	Arguments []grant.Matcher
	Proposals []grant.Proposal
	// Matches are the calls that it would have allowed: rejected ones first, then pending ones, then the newest; at most [MaxGrantMatches].
	Matches                     []GrantMatch
	Matching, Rejected, Pending int
	// NeedsSecond: a call that it would have allowed was rejected, or too many rejected calls had to be compared.
	NeedsSecond bool
}

// GrantMatch is a call that a grant would have allowed.
type GrantMatch struct {
	CallID    uuid.UUID
	CreatedAt time.Time
	Decision  approval.Status
}

// Limits of previews, in calls.
const (
	MaxGrantMatches    = 50
	maxGrantDecided    = 1000
	maxGrantRejected   = 10_000
	grantPreviewChunks = 200
)

// CheckGrantable returns an error if no grants can be made from a call. Error: ErrNoGrants.
func (s *Service) CheckGrantable(ctx context.Context, c *Call) error {
	skill, _, err := s.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return noGrants(skillRemoved)
	}
	if err != nil {
		return err
	}
	pins, err := s.Discovery.Status(ctx, c.SkillID, c.Tool)
	if err != nil {
		return err
	}
	switch settings := skill.Tools[c.Tool]; {
	case !c.Gated && c.GrantID == uuid.Nil:
		return noGrants("it needed no approval")
	case c.ContentDeletedAt != nil:
		return noGrants("its arguments were deleted")
	case c.hasFiles || len(c.Files) > 0:
		return noGrants("it has attached files")
	case !pins.Known || pins.Current != c.Pin || pins.Accepted != c.Pin || settings.Disabled():
		return noGrants("the tool is not offered any more with an accepted definition that this call has")
	default:
		definition, err := s.Discovery.Definition(ctx, c.Pin)
		if err != nil {
			return err
		}
		if !skill.TakesGrants(definition) {
			return noGrants("the tool is destructive, of high risk or has an approval policy, and no operator allows grants for it")
		}
	}
	_, err = s.Agents.AgentByID(ctx, c.AgentID)
	if errors.Is(err, agent.ErrNotFound) {
		return noGrants("the agent was deleted")
	}
	return err
}

// PreviewGrant says what a grant would allow. It stores nothing. Errors: ErrNotFound, ErrNoGrants,
// approval.ErrSelfApproval, approval.ErrInvitedApproval, *fault.InvalidError.
func (s *Service) PreviewGrant(ctx context.Context, by uuid.UUID, r GrantRequest) (GrantPreview, error) {
	p, err := s.previewGrant(ctx, by, r)
	if err != nil {
		return GrantPreview{}, fmt.Errorf("preview grant from call %s: %w", r.CallID, err)
	}
	return p, nil
}

func (s *Service) previewGrant(ctx context.Context, by uuid.UUID, r GrantRequest) (GrantPreview, error) {
	c, err := s.Get(ctx, Viewer{}, r.CallID)
	if err != nil {
		return GrantPreview{}, err
	}
	p := GrantPreview{Call: c}
	if err := s.CheckGrantable(ctx, &c); err != nil {
		return p, err
	}
	if err := s.CheckDecider(ctx, &c, by); err != nil {
		return p, err
	}
	if p.Proposals, err = grant.Propose(c.AgentArguments()); err != nil {
		return p, noGrants(err.Error())
	}
	if r.Arguments != nil {
		p.Arguments = *r.Arguments
	} else {
		for _, proposal := range p.Proposals {
			p.Arguments = append(p.Arguments, proposal.Matchers[0])
		}
	}
	if invalid := grant.Check(p.Arguments); len(invalid) > 0 {
		return p, &fault.InvalidError{Fields: invalid}
	}
	pattern, err := grant.Compile(p.Arguments)
	if err != nil {
		return p, err
	}
	if !pattern.Matches(c.AgentArguments()) {
		return p, fault.Invalid("arguments", "must allow the call that the grant is made from")
	}
	return p, s.findMatches(ctx, &p, pattern)
}

// findMatches adds the calls that a grant would have allowed.
func (s *Service) findMatches(ctx context.Context, p *GrantPreview, pattern *grant.Pattern) error {
	c := &p.Call
	scope := approval.Scope{AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool}
	decisions := map[uuid.UUID]approval.Status{}
	for _, part := range []struct {
		statuses []approval.Status
		limit    int
	}{
		{[]approval.Status{approval.Rejected}, maxGrantRejected},
		{[]approval.Status{approval.Pending}, maxGrantDecided},
		{[]approval.Status{approval.Approved, approval.Expired, approval.Cancelled}, maxGrantDecided},
	} {
		found, err := approval.ListScope(ctx, s.Pool, scope, part.statuses, part.limit)
		if err != nil {
			return err
		}
		p.NeedsSecond = p.NeedsSecond || part.limit == maxGrantRejected && len(found) == maxGrantRejected
		maps.Copy(decisions, found)
	}
	var err error
	if p.Matches, err = s.matchCalls(ctx, pattern, decisions); err != nil {
		return err
	}
	rank := func(m GrantMatch) int {
		switch m.Decision {
		case approval.Rejected:
			return 0
		case approval.Pending:
			return 1
		case approval.Approved, approval.Expired, approval.Cancelled:
		}
		return 2
	}
	slices.SortFunc(p.Matches, func(a, b GrantMatch) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.CreatedAt.Compare(a.CreatedAt))
	})
	p.Matching = len(p.Matches)
	for _, m := range p.Matches {
		switch m.Decision {
		case approval.Rejected:
			p.Rejected++
		case approval.Pending:
			p.Pending++
		case approval.Approved, approval.Expired, approval.Cancelled:
		}
	}
	p.NeedsSecond = p.NeedsSecond || p.Rejected > 0
	p.Matches = p.Matches[:min(len(p.Matches), MaxGrantMatches)]
	return nil
}

// matchCalls returns those of the decided calls whose arguments, as the agent sent them, match a pattern.
func (s *Service) matchCalls(ctx context.Context, pattern *grant.Pattern, decisions map[uuid.UUID]approval.Status) ([]GrantMatch, error) {
	var matches []GrantMatch
	err := s.eachDecided(ctx, decisions, func(m GrantMatch, arguments json.RawMessage) {
		if pattern.Matches(arguments) {
			matches = append(matches, m)
		}
	})
	return matches, err
}

// eachDecided passes on the arguments of each call that has a decision, as its agent sent them.
func (s *Service) eachDecided(ctx context.Context, decisions map[uuid.UUID]approval.Status, read func(m GrantMatch, arguments json.RawMessage)) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(decisions)), grantPreviewChunks) {
		rows, _ := s.Pool.Query(ctx, `SELECT id, created_at, coalesce(submitted, arguments) FROM calls WHERE id = ANY($1) AND content_deleted_at IS NULL AND made IS NULL`, chunk)
		var m GrantMatch
		var arguments []byte
		if _, err := pgx.ForEachRow(rows, []any{&m.CallID, &m.CreatedAt, &arguments}, func() error {
			m.Decision = decisions[m.CallID]
			read(m, arguments)
			return nil
		}); err != nil {
			return fmt.Errorf("compare calls with a grant: %w", err)
		}
	}
	return nil
}

// Grant makes a grant from a call. It counts at once, unless it would have allowed a call that was rejected: then another person has to confirm it.
// Under dual control, a grant beyond the bound waits for a second operator.
// Errors: those of [Service.PreviewGrant], *dualcontrol.WaitsError.
func (s *Service) Grant(ctx context.Context, by uuid.UUID, r GrantRequest) (agent.Grant, error) {
	p, err := s.previewGrant(ctx, by, r)
	if err != nil {
		return agent.Grant{}, fmt.Errorf("grant calls like %s: %w", r.CallID, err)
	}
	c := &p.Call
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return agent.Grant{}, err
	}
	risk, err := s.Agents.RiskOf(ctx, c.SkillID, c.Tool, definition)
	if err != nil {
		return agent.Grant{}, err
	}
	secrets, err := s.ReadSecrets(ctx, *c)
	if err != nil {
		return agent.Grant{}, err
	}
	in := agent.NewGrant{
		Spec:   grant.Spec{AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool, Pin: c.Pin, Arguments: p.Arguments},
		CallID: c.ID, Time: r.Time, Uses: r.Uses, NeedsSecond: p.NeedsSecond, Risky: risk != agent.RiskStandard,
	}
	for i := range p.Arguments {
		if m := &p.Arguments[i]; m.HasSecret(secrets[c.ID]) {
			in.Secret = append(in.Secret, m.Argument)
		}
	}
	return s.Agents.CreateGrant(ctx, audit.Person(by), in)
}

// ConfirmGrant confirms a grant that needs a second person. Errors: those of [agent.Service.ConfirmGrant] and of
// [Service.CheckDecider], ErrOwnGrant.
func (s *Service) ConfirmGrant(ctx context.Context, by, id uuid.UUID) (agent.Grant, error) {
	g, err := s.Agents.GetGrant(ctx, id)
	if err != nil {
		return g, err
	}
	if g.State == agent.GrantWaiting {
		same, err := s.mayBeEditor(ctx, s.Pool, g.GrantedBy, by)
		if err == nil && same {
			err = ErrOwnGrant
		}
		if err != nil {
			return g, fmt.Errorf("confirm grant %s: %w", id, err)
		}
		if err := s.CheckDecider(ctx, &Call{ID: g.CallID, AgentID: g.AgentID, PrincipalID: g.PrincipalID, SkillID: g.SkillID, CreatedAt: g.GrantedAt}, by); err != nil {
			return g, fmt.Errorf("confirm grant %s: %w", id, err)
		}
	}
	return s.Agents.ConfirmGrant(ctx, audit.Person(by), id)
}
