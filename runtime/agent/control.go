package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// registerChanges says how changes of the registry that waited for a second operator are applied.
func (s *Service) registerChanges() {
	for kind, apply := range map[dualcontrol.Kind]func(*edit, context.Context, []byte) error{
		dualcontrol.Skill:  (*edit).applySkillProposal,
		dualcontrol.Tool:   (*edit).applyToolProposal,
		dualcontrol.Rule:   applyVersion((*edit).readRules),
		dualcontrol.Policy: applyVersion((*edit).readPolicies),
		dualcontrol.Grant:  (*edit).applyGrantProposal,
	} {
		s.control.Register(kind, dualcontrol.Applier{
			Lock: lockSQL,
			Apply: func(ctx context.Context, tx pgx.Tx, c dualcontrol.Change, payload []byte, by uuid.UUID) error {
				e := &edit{Service: s, tx: tx, by: audit.Person(by), agents: map[uuid.UUID]bool{}, approved: &c}
				if err := apply(e, ctx, payload); err != nil {
					return err
				}
				return e.writeChanges(ctx)
			},
			Applied: func() {
				s.Invalidate()
				s.discovery.Invalidate()
			},
		})
	}
}

// isControlled reports whether changes that loosen have to wait in this edit.
func (e *edit) isControlled() bool {
	return e.control.IsOn() && e.approved == nil && e.by.Kind == audit.KindPerson
}

// propose lets a change wait for a second operator.
func (e *edit) propose(ctx context.Context, p dualcontrol.Proposal) error {
	waits, err := e.control.Propose(ctx, e.tx, e.by, p)
	e.waits = waits
	return err
}

// takeWaiting notes in a change that it waits, if it does.
func (e *edit) takeWaiting(c *Change) {
	if e.waits != nil {
		c.Waits = e.waits.ID.String()
		e.waits = nil
	}
}

// proposedFields returns all differences of two states, without a bound on their length: they are what a second operator approves.
func proposedFields(before, after []field) []dualcontrol.Field {
	changes := compareFields(before, after, func(value string) string { return value })
	fields := make([]dualcontrol.Field, len(changes))
	for i, c := range changes {
		fields[i] = dualcontrol.Field(c)
	}
	return fields
}

// skillProposal is the state of a skill that waits for a second operator.
type skillProposal struct {
	Revision  int64 // of the skill; 0: there is none
	Transport tool.Transport
	Stored    skillSettings
	Secrets   skillSecrets
	Settings  SkillSettings
	Document  []byte
	Public    map[string]bool // see [edit.public]
}

func (e *edit) newSkillProposal(revision int64, s *skillState) skillProposal {
	return skillProposal{
		Revision: revision, Transport: s.Transport, Stored: s.storedSettings(), Settings: s.SkillSettings, Document: s.API.document, Public: e.public,
		Secrets: skillSecrets{Headers: s.Headers, Env: s.Env, OAuth: s.OAuth.listSecrets(), Auth: s.API.secret},
	}
}

func (p *skillProposal) buildState() *skillState {
	api := apiState{secret: p.Secrets.Auth, document: p.Document}
	setIfGiven(&api.API, p.Stored.API)
	return &skillState{
		Transport: p.Transport, URL: p.Stored.URL, Command: p.Stored.Command, Headers: p.Secrets.Headers, Env: p.Secrets.Env,
		RunAs: p.Stored.RunAs, Paths: p.Stored.Paths, OAuth: p.Stored.OAuth.withSecrets(p.Secrets.OAuth), PerUser: p.Stored.PerUser,
		API: api, SkillSettings: p.Settings,
	}
}

// proposeSkill lets a change of a skill wait if it loosens. It reports whether it does.
func (e *edit) proposeSkill(ctx context.Context, row *skillRow, s *skillState, changes []FieldChange) (bool, error) {
	if !e.isControlled() {
		return false, nil
	}
	before, err := row.buildState(e.box)
	if err != nil {
		return false, err
	}
	loosens, err := e.loosensSkill(ctx, row.Name, before, s, changes)
	if err != nil || !loosens {
		return false, err
	}
	return true, e.propose(ctx, dualcontrol.Proposal{
		Kind: dualcontrol.Skill, Subject: row.ID, Name: row.Name, Action: ActionUpdate,
		Fields: proposedFields(before.listFields(), s.listFields()), Payload: e.newSkillProposal(row.Revision, s),
	})
}

// proposeNewSkill lets a skill wait whose name a rule knows that lets calls pass: the settings that a skill of this name had may be gone. It
// reports whether it does.
func (e *edit) proposeNewSkill(ctx context.Context, name string, s *skillState) (bool, error) {
	if !e.isControlled() {
		return false, nil
	}
	passes, err := e.passesWithout(ctx, false, func(spec *rule.Spec) bool { return spec.CoversSkill(name) })
	if err != nil || !passes {
		return false, err
	}
	return true, e.propose(ctx, dualcontrol.Proposal{
		Kind: dualcontrol.Skill, Subject: skillSubject(name), Name: name, Action: ActionCreate,
		Fields: proposedFields(nil, s.listFields()), Payload: e.newSkillProposal(0, s),
	})
}

// skillSubject returns the id under which a skill waits that does not exist.
func skillSubject(name string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:skill:"+name))
}

func (e *edit) applySkillProposal(ctx context.Context, payload []byte) error {
	var p skillProposal
	if err := json.Unmarshal(payload, &p); err != nil { //nolint:musttag // it has the names of its Go fields, as it was encoded
		return fmt.Errorf("decode change: %w", err)
	}
	state := p.buildState()
	e.public = p.Public
	row, err := readSkillRow(ctx, e.tx, `s.name = $1`, e.approved.Name)
	if missing := errors.Is(err, ErrNotFound); missing || err == nil {
		switch {
		case missing && p.Revision == 0:
			_, err = e.insertSkill(ctx, e.approved.Name, state)
			return err
		case missing || row.Revision != p.Revision || row.ID != e.approved.Subject:
			return dualcontrol.ErrStale
		}
	}
	if err != nil {
		return err
	}
	before, err := row.buildState(e.box)
	if err != nil {
		return err
	}
	return e.updateSkill(ctx, row, state, diffFields(before.listFields(), state.listFields()))
}

// versionProposal is a rule or a policy that waits for a second operator.
type versionProposal[S any] struct {
	Revision int64 // of the present version; 0: there is none
	Spec     *S    // nil: it is deleted
}

// propose lets a change of a rule or a policy wait if it loosens. It reports whether it does.
func (v *versions[S]) propose(ctx context.Context, name string, after *S) (bool, error) {
	before := v.present[name]
	if !v.edit.isControlled() || !v.about.loosens(before.Spec, after) {
		return false, nil
	}
	list := func(spec *S) []field {
		if spec == nil {
			return nil
		}
		return v.about.listFields(spec)
	}
	action := ActionUpdate
	switch {
	case after == nil:
		action = ActionDelete
	case before.Spec == nil:
		action = ActionCreate
	}
	return true, v.edit.propose(ctx, dualcontrol.Proposal{
		Kind: v.about.controlled, Subject: subjectOf(v.about.kind, name), Name: name, Action: action,
		Fields: proposedFields(list(before.Spec), list(after)), Payload: versionProposal[S]{before.Revision, after},
	})
}

// applyVersion returns the function that applies the changes of rules, or of policies.
func applyVersion[S any](read func(*edit, context.Context) (*versions[S], error)) func(*edit, context.Context, []byte) error {
	return func(e *edit, ctx context.Context, payload []byte) error {
		var p versionProposal[S]
		if err := json.Unmarshal(payload, &p); err != nil { //nolint:musttag // it has the names of its Go fields, as it was encoded
			return fmt.Errorf("decode change: %w", err)
		}
		present, err := read(e, ctx)
		switch name := e.approved.Name; {
		case err != nil:
			return err
		case present.present[name].Revision != p.Revision:
			return dualcontrol.ErrStale
		case p.Spec == nil:
			return present.remove(ctx, name)
		default:
			r := newReport()
			if _, err = present.set(ctx, r, name, p.Spec); err == nil {
				err = r.err()
			}
			return err
		}
	}
}

// loosensPolicy reports whether a change of a policy may ask less of those who decide. It is not known which alternative a call would take, so
// every change of a policy counts. A new one is used by nothing, and so is one that is deleted.
func loosensPolicy(before, after *policy.Spec) bool { return before != nil && after != nil }

// toolProposal is the definition of a tool that waits for a second operator.
type toolProposal struct {
	SkillID uuid.UUID
	Tool    string
	Pin     tool.Pin
}

// proposeTool lets the definition of a tool wait if accepting it lets calls pass, or if it was refused. It reports whether it does.
func (e *edit) proposeTool(ctx context.Context, row *skillRow, name string, pin tool.Pin) (bool, error) {
	if !e.isControlled() {
		return false, nil
	}
	var pins tool.PinStatus
	batch := &pgx.Batch{}
	tool.QueuePin(batch, row.ID, name, &pins)
	if err := e.tx.SendBatch(ctx, batch).Close(); err != nil {
		return false, err
	}
	if !pins.Known || pins.Current != pin || pins.IsAccepted() && !pins.IsRefused() {
		return false, nil // nothing to accept
	}
	loosens := pins.IsRefused()
	if !loosens {
		var err error
		loosens, err = e.passesWithout(ctx, row.AutoApprove, func(spec *rule.Spec) bool { return spec.CoversTool(row.Name, name) })
		if err != nil || !loosens {
			return false, err
		}
	}
	old := ""
	if !pins.Accepted.IsZero() {
		old = pins.Accepted.String()
	}
	return true, e.propose(ctx, dualcontrol.Proposal{
		Kind: dualcontrol.Tool, Subject: uuid.NewSHA1(row.ID, []byte(name)), Name: row.Name + "/" + name, Action: ActionUpdate,
		Fields: []dualcontrol.Field{{Field: "definition", Old: old, New: pin.String()}}, Payload: toolProposal{row.ID, name, pin},
	})
}

func (e *edit) applyToolProposal(ctx context.Context, payload []byte) error {
	var p toolProposal
	if err := json.Unmarshal(payload, &p); err != nil { //nolint:musttag // it has the names of its Go fields, as it was encoded
		return fmt.Errorf("decode change: %w", err)
	}
	err := e.acceptTool(ctx, p.SkillID, p.Tool, p.Pin)
	if errors.Is(err, tool.ErrNotCurrent) || errors.Is(err, tool.ErrNotFound) || errors.Is(err, ErrNotFound) {
		err = dualcontrol.ErrStale
	}
	return err
}
