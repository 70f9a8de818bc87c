package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// loosens reports whether a grant goes beyond the bound of what one person grants under dual control: it lasts longer than grants do by default,
// leaves an argument open, or is for a risky tool.
func (n *NewGrant) loosens() bool {
	return n.Risky || n.Time > grant.DefaultTime || slices.ContainsFunc(n.Arguments, func(m grant.Matcher) bool { return m.IsOpen() })
}

// grantProposal is a grant that waits for a second operator.
type grantProposal struct {
	New NewGrant
	Via *uuid.UUID // the token or the session of the person who granted; nil: another credential
}

// proposeGrant lets a grant wait if it goes beyond the bound. It reports whether it does. A later grant from the same call replaces it.
func (e *edit) proposeGrant(ctx context.Context, in NewGrant) (bool, error) {
	if !e.isControlled() || !in.loosens() {
		return false, nil
	}
	names, err := Names(ctx, e.tx, []uuid.UUID{in.AgentID, in.SkillID})
	if err != nil {
		return false, err
	}
	return true, e.propose(ctx, dualcontrol.Proposal{
		Kind: dualcontrol.Grant, Subject: uuid.NewSHA1(in.CallID, []byte("grant")), Name: names[in.AgentID] + ": " + names[in.SkillID] + "/" + in.Tool, Action: ActionCreate,
		Fields: in.listFields(), Payload: grantProposal{in, credentialOf(ctx, e.by)},
	})
}

// listFields returns what a grant says. A person has their id: an erasure does not find names here.
func (n *NewGrant) listFields() []dualcontrol.Field {
	fields := []dualcontrol.Field{{Field: dualcontrol.CallField, New: n.CallID.String()}}
	add := func(name, value string) { fields = append(fields, dualcontrol.Field{Field: name, New: value}) }
	if n.PrincipalID != uuid.Nil {
		add("on_behalf_of", n.PrincipalID.String())
	}
	for i := range n.Arguments {
		value := "a secret"
		if m := &n.Arguments[i]; !slices.Contains(n.Secret, m.Argument) {
			value = grant.Describe([]grant.Matcher{*m})
		}
		add("arguments"+n.Arguments[i].Argument, value)
	}
	add("time", Duration(n.Time).String())
	if n.Uses != nil {
		add("uses", strconv.FormatInt(*n.Uses, 10))
	}
	if n.NeedsSecond {
		add("needs_second", "true")
	}
	return fields
}

// applyGrantProposal makes a grant that a second operator approved, on behalf of who granted it. The person for whom calls are made approves no
// grant for them, and neither does one who is known only by the word of that person or of who made a key of the agent. If a call of the tool was
// rejected since the grant was proposed, another person has to confirm the grant: its preview did not show that call. Errors:
// approval.ErrSelfApproval, approval.ErrInvitedApproval, dualcontrol.ErrStale.
func (e *edit) applyGrantProposal(ctx context.Context, payload []byte) error {
	var p grantProposal
	if err := json.Unmarshal(payload, &p); err != nil { //nolint:musttag // it has the names of its Go fields, as it was encoded
		return fmt.Errorf("decode change: %w", err)
	}
	var pins tool.PinStatus
	var ties identity.Ties
	var present, rejected bool
	batch := &pgx.Batch{}
	approval.QueueRejectedSince(batch, approval.Scope{AgentID: p.New.AgentID, PrincipalID: p.New.PrincipalID, SkillID: p.New.SkillID, Tool: p.New.Tool}, e.approved.ProposedAt, &rejected)
	tool.QueuePin(batch, p.New.SkillID, p.New.Tool, &pins)
	identity.QueueTies(batch, "$3::uuid", p.New.PrincipalID, e.by.ID, &ties)
	batch.Queue(`SELECT EXISTS (SELECT FROM agents WHERE id = $1 AND deleted_at IS NULL) AND EXISTS (SELECT FROM skills WHERE id = $2 AND deleted_at IS NULL)`,
		p.New.AgentID, p.New.SkillID).QueryRow(func(row pgx.Row) error { return row.Scan(&present) })
	if err := e.tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read what a grant is about: %w", err)
	}
	switch {
	case ties.Same && p.New.PrincipalID != uuid.Nil:
		return approval.ErrSelfApproval
	case !present, !pins.Known, pins.Current != tool.Pin(p.New.Pin), !pins.IsAccepted():
		return dualcontrol.ErrStale
	}
	if len(ties.Inviters) > 0 {
		makers, err := KeyMakers(ctx, e.tx, p.New.AgentID, e.approved.ProposedAt)
		if err != nil {
			return err
		}
		if p.New.PrincipalID != uuid.Nil {
			makers = append(makers, p.New.PrincipalID)
		}
		switch invited, err := identity.SameAsAny(ctx, e.tx, ties.Inviters, makers); {
		case err != nil:
			return fmt.Errorf("read invitations: %w", err)
		case invited:
			return approval.ErrInvitedApproval
		}
	}
	p.New.NeedsSecond = p.New.NeedsSecond || rejected
	_, err := e.insertGrant(ctx, e.approved.ProposedBy, p.Via, p.New)
	return err
}

// insertGrant stores a checked grant and returns its id.
func (e *edit) insertGrant(ctx context.Context, by uuid.UUID, via *uuid.UUID, in NewGrant) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, err
	}
	matchers, err := json.Marshal(append([]grant.Matcher{}, in.Arguments...))
	if err != nil {
		return id, err
	}
	if err := e.checkGrantRoom(ctx, 1); err != nil {
		return id, err
	}
	if _, err := e.tx.Exec(ctx, `INSERT INTO grants (id, agent_id, principal_id, skill_id, tool, pin, arguments, call_id, granted_by, granted_via, needs_second, ends_at, uses)
		VALUES ($1, $2, $3, $4, $5, $6, $7::json, $8, $9, $10, $11, holdpoint_now() + $12 * interval '1 microsecond', $13)`,
		id, in.AgentID, postgres.OrNull(in.PrincipalID), in.SkillID, in.Tool, in.Pin[:], string(matchers), in.CallID, by, via, in.NeedsSecond,
		in.Time.Microseconds(), in.Uses); err != nil {
		return id, err
	}
	names, err := Names(ctx, e.tx, []uuid.UUID{in.AgentID, in.SkillID})
	if err != nil {
		return id, err
	}
	data := map[string]any{"agent": names[in.AgentID], "skill": names[in.SkillID], "tool": in.Tool, "call": in.CallID, "time": Duration(in.Time).String()}
	if in.Uses != nil {
		data["uses"] = *in.Uses
	}
	if in.NeedsSecond {
		data["needs_second"] = true
	}
	e.recordChange(audit.GrantCreated, id, data)
	return id, nil
}
