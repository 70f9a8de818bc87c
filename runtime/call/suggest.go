package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/suggest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Limits of suggestions.
const (
	MaxSuggestFrom = 100_000             // decisions
	SuggestWindow  = 30 * 24 * time.Hour // from which decisions count

	suggestAge     = 5 * time.Minute // how old suggestions may be
	suggestTime    = 20 * time.Second
	suggestTimeout = time.Minute
	suggestBatch   = 2000
	suggestBytes   = 128 << 20 // of arguments
	suggestLargest = 1 << 16   // bytes of arguments; larger ones count as unreadable
)

// Suggestion is a grant that decisions suggest, with names.
type Suggestion struct {
	suggest.Suggestion

	Agent, Skill string
	Key          string // names it while the decisions are the same
}

// Suggestions are the grants that the decisions of the last 30 days suggest, those that save most calls first.
type Suggestions struct {
	Found     []Suggestion
	Decisions int        // that were read
	Since     *time.Time // the oldest of them; nil: there were none
	Complete  bool       // all decisions of the time were read, and not only the newest ones
	At        time.Time
}

func suggestMemory(now func() time.Time) *registry.Memory[struct{}, Suggestions] {
	return registry.NewMemory[struct{}](registry.Config[Suggestions]{TTL: suggestAge, LoadTimeout: suggestTimeout, Now: now})
}

// SuggestGrants returns the grants that decisions suggest. They are some minutes old at most, but those that a grant covers since are left out. It
// makes no grant.
func (s *Service) SuggestGrants(ctx context.Context) (Suggestions, error) {
	found, err := s.suggestions.Get(ctx, struct{}{}, s.findSuggestions)
	if err != nil {
		return Suggestions{}, fmt.Errorf("suggest grants: %w", err)
	}
	book, err := s.Agents.Grants(ctx)
	if err != nil {
		return Suggestions{}, fmt.Errorf("suggest grants: %w", err)
	}
	found.Found = slices.DeleteFunc(slices.Clone(found.Found), func(one Suggestion) bool { return len(book.Find(&one.Spec, one.Example)) > 0 })
	return found, nil
}

// FindSuggestion returns a suggestion by its key. It reports false if decisions do not suggest it any more.
func (s *Service) FindSuggestion(ctx context.Context, key string) (Suggestion, bool, error) {
	all, err := s.SuggestGrants(ctx)
	i := slices.IndexFunc(all.Found, func(one Suggestion) bool { return one.Key == key })
	if err != nil || i < 0 {
		return Suggestion{}, false, err
	}
	return all.Found[i], true, nil
}

func (s *Service) findSuggestions(ctx context.Context) (Suggestions, error) {
	found := Suggestions{At: s.Now()}
	calls, err := s.readDecided(ctx, &found)
	if err != nil {
		return found, err
	}
	suggested, err := suggest.Find(ctx, calls)
	if err != nil {
		return found, err
	}
	for _, one := range suggested {
		view, useful, err := s.checkSuggestion(ctx, one)
		if err != nil {
			return found, err
		}
		if useful {
			found.Found = append(found.Found, view)
		}
	}
	return found, nil
}

// readDecided reads the calls that reviewers decided lately, the newest first.
func (s *Service) readDecided(ctx context.Context, found *Suggestions) ([]suggest.Call, error) {
	var calls []suggest.Call
	began, size := s.Now(), 0
	var before *time.Time
	last := uuid.Max
	for found.Decisions < MaxSuggestFrom && size < suggestBytes && elapsedTime(s.Now(), began) < suggestTime {
		var batch []suggest.Call
		err := s.Reader.InTx(ctx, func(tx pgx.Tx) (err error) {
			batch, err = postgres.Collect(ctx, tx, scanDecided, `SELECT a.call_id, a.agent_id, a.principal_id, a.skill_id, a.tool, a.status, a.original_digest IS NOT NULL, a.decided_at, a.decided_by, c.pin,
					CASE WHEN octet_length(coalesce(c.submitted, c.arguments)) <= $4 THEN coalesce(c.submitted, c.arguments) END
				FROM (SELECT call_id, agent_id, principal_id, skill_id, tool, status, original_digest, decided_at, decided_by FROM approvals
					WHERE decided_at > holdpoint_now() - $3 * interval '1 second' AND ($1::timestamptz IS NULL OR (decided_at, call_id) < ($1, $2))
						AND status IN ('approved', 'rejected')
					ORDER BY decided_at DESC, call_id DESC LIMIT $5) AS a
				LEFT JOIN calls c ON c.id = a.call_id AND c.content_deleted_at IS NULL
				ORDER BY a.decided_at DESC, a.call_id DESC`, before, last, SuggestWindow.Seconds(), suggestLargest, suggestBatch)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		for i := range batch {
			size += len(batch[i].Arguments)
			found.Decisions++
			found.Since = &batch[i].DecidedAt
			before, last = &batch[i].DecidedAt, batch[i].ID
		}
		calls = append(calls, batch...)
		if found.Complete = len(batch) < suggestBatch; found.Complete {
			break
		}
	}
	return calls, nil
}

func scanDecided(row pgx.CollectableRow) (c suggest.Call, err error) {
	var principal, by *uuid.UUID
	var status approval.Status
	var edited bool
	var pin []byte
	err = row.Scan(&c.ID, &c.AgentID, &principal, &c.SkillID, &c.Tool, &status, &edited, &c.DecidedAt, &by, &pin, (*[]byte)(&c.Arguments))
	copy(c.Pin[:], pin)
	c.PrincipalID, c.DecidedBy = postgres.OrNil(principal), postgres.OrNil(by)
	switch {
	case status == approval.Rejected:
		c.Outcome = suggest.Rejected
	case edited:
		c.Outcome = suggest.Edited
	}
	return c, err
}

// checkSuggestion adds names to a suggestion. It reports false if a grant would be refused or would change nothing now, or if it would show a secret.
func (s *Service) checkSuggestion(ctx context.Context, found suggest.Suggestion) (_ Suggestion, useful bool, err error) {
	c, err := s.Get(ctx, Viewer{}, found.CallID)
	if errors.Is(err, ErrNotFound) {
		return Suggestion{}, false, nil
	}
	if err != nil {
		return Suggestion{}, false, err
	}
	err = s.CheckGrantable(ctx, &c)
	if errors.Is(err, ErrNoGrants) {
		return Suggestion{}, false, nil
	}
	if err != nil {
		return Suggestion{}, false, err
	}
	secrets, err := s.ReadSecrets(ctx, c)
	if err != nil {
		return Suggestion{}, false, err
	}
	if rules := secrets[c.ID]; rules != nil && rules.Count(c.AgentArguments()) > 0 {
		return Suggestion{}, false, nil
	}
	skill, _, err := s.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return Suggestion{}, false, nil
	}
	if err != nil {
		return Suggestion{}, false, err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return Suggestion{}, false, err
	}
	settings := skill.Tools[c.Tool]
	now := c
	now.Arguments = c.AgentArguments()
	a := &admission{target: target{skill: skill, definition: definition}}
	err = s.applyRules(ctx, &now, a, approval.Judge(approval.Facts{
		AutoApprove: skill.AutoApprove, HighRisk: settings.Risk != "", Known: true, Accepted: true, EverSeen: true,
	}))
	if err != nil || !a.verdict.AllowsGrants(settings.Grants) {
		return Suggestion{}, false, err
	}
	return Suggestion{Suggestion: found, Agent: c.Agent, Skill: c.Skill, Key: suggestionKey(&found.Spec)}, true, nil
}

func suggestionKey(of *grant.Spec) string {
	text, err := json.Marshal(of) //nolint:musttag // only its digest is used
	if err != nil {               // it has been checked
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
