// Package suggest proposes grants from decisions: calls that reviewers approved again and again, as the narrowest grants that cover them. It is
// deterministic, stores nothing and applies nothing; a person makes the grant or does not.
//
// It prefers no grant to a wrong one. A grant is proposed only if
//
//   - it covers no call that was rejected or edited, and the arguments explain each rejection of its agent and tool: a value, or two values together, that
//     were never approved. Otherwise the reason is something that no grant can say, such as the time, and this agent and tool get no proposals;
//   - each value that it lists was approved several times and lately, numbers stay within those that were approved, and only prose is left open;
//   - of each two arguments, all values that it allows together were approved together. Otherwise it is split into narrower ones.
package suggest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/grant"
)

// Outcome is how a reviewer decided.
type Outcome int

// The outcomes.
const (
	Approved Outcome = iota
	Edited           // approved with other arguments
	Rejected
)

// Call is a call that a reviewer decided.
type Call struct {
	ID          uuid.UUID
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: nobody
	SkillID     uuid.UUID
	Tool        string
	Pin         [sha256.Size]byte
	Arguments   json.RawMessage // as the agent wrote them
	Outcome     Outcome
	DecidedAt   time.Time
	DecidedBy   uuid.UUID
}

// Suggestion is a grant that would have let calls pass which reviewers approved.
type Suggestion struct {
	grant.Spec
	// CallID is the newest call that it covers. A grant can be made from it.
	CallID   uuid.UUID
	Example  json.RawMessage // its arguments
	Covered  int             // approved calls that it covers
	Approved int             // approved calls of the agent with the tool, on behalf of the same person
	Refused  int             // rejected and edited calls of the agent with the tool; it covers none
	Deciders int             // people who approved the covered calls
	Distinct []int           // values of each argument in the covered calls
	First    time.Time       // decision about a covered call
	Last     time.Time
}

// Varying returns the names of the arguments that were not the same in all covered calls.
func (s *Suggestion) Varying() []string {
	var names []string
	for i := range s.Arguments {
		if s.Distinct[i] > 1 {
			names = append(names, strings.ReplaceAll(strings.TrimPrefix(s.Arguments[i].Argument, "/"), "/", "."))
		}
	}
	return names
}

// Describe says in English why the grant is suggested.
func (s *Suggestion) Describe(agent string) string {
	varied := "nothing varied"
	if names := s.Varying(); len(names) > 0 {
		varied = "only " + strings.Join(names, ", ") + " varied"
	}
	return fmt.Sprintf("%d of %d calls of %s by %s like this were approved; %s", s.Covered, s.Covered, s.Tool, agent, varied)
}

// Limits of suggestions.
const (
	MaxSuggestions = 200

	minCalls   = 4 // approved calls that a suggestion covers
	minDays    = 3 // on which they were decided
	minValue   = 3 // approvals of a listed value
	minDomain  = 3
	minPattern = 12 // different values from which a pattern is read
)

// toolKey is what decisions are compared within.
type toolKey struct {
	agent, skill uuid.UUID
	tool         string
}

// Find returns the grants that decisions suggest, those that save most calls first. The calls need no order. A refused call whose arguments
// cannot be read counts: its agent and tool get no suggestions.
func Find(ctx context.Context, calls []Call) ([]Suggestion, error) {
	groups := map[toolKey]*group{}
	var keys []toolKey
	for i := range calls {
		c := &calls[i]
		key := toolKey{c.AgentID, c.SkillID, c.Tool}
		g := groups[key]
		if g == nil {
			g = &group{}
			groups[key], keys = g, append(keys, key)
		}
		g.add(c)
	}
	var found []Suggestion
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found = append(found, groups[key].suggest()...)
	}
	slices.SortFunc(found, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Covered, a.Covered), bytes.Compare(a.CallID[:], b.CallID[:]))
	})
	return found[:min(len(found), MaxSuggestions)], nil
}

// group is the decided calls of a tool by an agent.
type group struct {
	approved, refused []*decided
	unread            bool // the arguments of a refused call cannot be read
	all               *profile
	own               map[uuid.UUID]*profile // of the people for whom enough calls were approved
}

func (g *group) add(c *Call) {
	d, err := readCall(c)
	switch {
	case err != nil && c.Outcome != Approved:
		g.unread = true
	case err != nil:
	case c.Outcome == Approved:
		g.approved = append(g.approved, d)
	default:
		g.refused = append(g.refused, d)
	}
}

// suggest returns the grants of a group.
func (g *group) suggest() []Suggestion {
	if g.unread || len(g.approved) < minCalls {
		return nil
	}
	slices.SortFunc(g.approved, compareDecided)
	g.readProfiles()
	if slices.ContainsFunc(g.refused, func(d *decided) bool { return !g.explains(d) }) {
		return nil
	}
	pin := g.approved[len(g.approved)-1].Pin
	type cellKey struct {
		principal uuid.UUID
		shape     string
	}
	cells, totals := map[cellKey][]*decided{}, map[uuid.UUID]int{}
	var keys []cellKey
	for _, d := range g.approved {
		totals[d.PrincipalID]++
		if d.Pin != pin {
			continue
		}
		key := cellKey{d.PrincipalID, d.shape()}
		if cells[key] == nil {
			keys = append(keys, key)
		}
		cells[key] = append(cells[key], d)
	}
	newest := g.approved[len(g.approved)-1].DecidedAt
	oldest := g.approved[0].DecidedAt
	s := &search{group: g, recent: newest.Add(-newest.Sub(oldest) / 3)}
	for _, key := range keys {
		s.split(cells[key], 0)
	}
	for i := range s.found {
		s.found[i].Approved, s.found[i].Refused = totals[s.found[i].PrincipalID], len(g.refused)
	}
	return s.found
}

func compareDecided(a, b *decided) int {
	return cmp.Or(a.DecidedAt.Compare(b.DecidedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// search looks for grants in the approved calls of a group.
type search struct {
	*group

	recent time.Time // values must have been approved since
	found  []Suggestion
}

// split suggests a grant for calls with the same members, or splits them by an argument into narrower ones.
func (s *search) split(calls []*decided, depth int) {
	var args []*argument
	for trim := true; ; trim = false {
		if !isHabit(calls, s.recent) {
			return
		}
		args = args[:0]
		kept := calls
		for i := range calls[0].leaves {
			a := readArgument(calls, i, s.recent, trim)
			if a == nil {
				return
			}
			args = append(args, a)
			kept = slices.DeleteFunc(slices.Clone(kept), func(d *decided) bool { return a.featureOf(d.leaves[i]) == unknown })
		}
		if len(kept) == len(calls) {
			break
		}
		calls = kept
	}
	made, ok := s.build(calls, args)
	at := s.findGap(calls, args)
	if ok && at < 0 && s.isSafe(&made) {
		s.found = append(s.found, made)
		return
	}
	if at < 0 {
		at = widest(args)
	}
	if at < 0 || depth > len(args)+3 {
		return
	}
	parts := map[string][]*decided{}
	var order []string
	for _, d := range calls {
		f := args[at].featureOf(d.leaves[at])
		if parts[f] == nil {
			order = append(order, f)
		}
		parts[f] = append(parts[f], d)
	}
	if len(parts) < 2 {
		return
	}
	for _, f := range order {
		s.split(parts[f], depth+1)
	}
}

// isHabit reports whether calls were approved often, on several days, and lately.
func isHabit(calls []*decided, recent time.Time) bool {
	if len(calls) < minCalls {
		return false
	}
	days, late := map[string]bool{}, false
	for _, d := range calls {
		days[d.DecidedAt.UTC().Format(time.DateOnly)] = true
		late = late || !d.DecidedAt.Before(recent)
	}
	return late && len(days) >= minDays
}

// findGap returns an argument by which calls have to be split, because two values that a grant would allow together were never approved
// together; -1: there is none.
func (s *search) findGap(calls []*decided, args []*argument) int {
	gaps := make([]int, len(args))
	for i := range args {
		for j := range i {
			missing := len(args[i].features) * len(args[j].features)
			if len(args[i].features) < 2 || len(args[j].features) < 2 {
				continue
			}
			seen := map[[2]string]bool{}
			for _, d := range calls {
				seen[[2]string{args[i].featureOf(d.leaves[i]), args[j].featureOf(d.leaves[j])}] = true
			}
			if missing -= len(seen); missing > 0 {
				gaps[i] += missing
				gaps[j] += missing
			}
		}
	}
	best := -1
	for i, n := range gaps {
		if n > 0 && (best < 0 || args[i].rank() < args[best].rank() || args[i].rank() == args[best].rank() && n > gaps[best]) {
			best = i
		}
	}
	return best
}

// widest returns the argument with most values, or -1.
func widest(args []*argument) int {
	best := -1
	for i, a := range args {
		if len(a.features) > 1 && (best < 0 || a.rank() < args[best].rank() || a.rank() == args[best].rank() && len(a.features) > len(args[best].features)) {
			best = i
		}
	}
	return best
}

// build makes the suggestion of calls.
func (s *search) build(calls []*decided, args []*argument) (Suggestion, bool) {
	last := calls[len(calls)-1]
	made := Suggestion{
		Spec:   grant.Spec{AgentID: last.AgentID, PrincipalID: last.PrincipalID, SkillID: last.SkillID, Tool: last.Tool, Pin: last.Pin},
		CallID: last.ID, First: calls[0].DecidedAt, Last: last.DecidedAt,
	}
	for i, a := range args {
		m := a.matcher
		m.Argument = last.leaves[i].Argument
		made.Arguments = append(made.Arguments, m)
		made.Distinct = append(made.Distinct, a.distinct)
	}
	pattern, err := grant.Compile(made.Arguments)
	if err != nil || len(grant.Check(made.Arguments)) > 0 {
		return made, false
	}
	deciders := map[uuid.UUID]bool{}
	for _, d := range calls {
		if !pattern.Matches(d.Arguments) {
			continue
		}
		made.Covered++
		made.CallID, made.Example = d.ID, d.Arguments
		deciders[d.DecidedBy] = true
	}
	made.Deciders = len(deciders)
	return made, made.Covered >= minCalls
}

// isSafe reports whether a suggestion covers no refused call, whoever it was made for. A rejection for another person that this person's own calls
// explain is theirs alone.
func (s *search) isSafe(made *Suggestion) bool {
	pattern, err := grant.Compile(made.Arguments)
	return err == nil && !slices.ContainsFunc(s.refused, func(d *decided) bool {
		return pattern.Matches(d.Arguments) && (d.PrincipalID == made.PrincipalID || !d.own)
	})
}

// decided is a call with its arguments.
type decided struct {
	*Call

	leaves []leaf // sorted by name
	own    bool   // of a refused call: the approved calls of its person explain it
}

// shape returns a text that calls share which have the same arguments, with values of the same types.
func (d *decided) shape() string {
	var b strings.Builder
	for i := range d.leaves {
		kind := jsontext.Value(d.leaves[i].raw).Kind()
		if kind == 't' {
			kind = 'f'
		}
		b.WriteString(d.leaves[i].Argument)
		b.WriteByte('\n')
		b.WriteByte(byte(kind))
	}
	return b.String()
}

func readCall(c *Call) (*decided, error) {
	proposals, err := grant.Propose(c.Arguments)
	if err != nil {
		return nil, err
	}
	d := &decided{Call: c}
	for _, p := range proposals {
		d.leaves = append(d.leaves, readLeaf(p.Argument, p.Value))
	}
	slices.SortFunc(d.leaves, func(a, b leaf) int { return cmp.Compare(a.Argument, b.Argument) })
	return d, nil
}
