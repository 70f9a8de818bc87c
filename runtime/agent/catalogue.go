package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Catalogue is what an agent sees in a conversation, in the order it is listed:
// by skill, then by the tool's own name. It is immutable and shared between conversations.
type Catalogue struct {
	Entries []Entry
	byName  map[string]int
	digest  CatalogueDigest
}

// CatalogueDigest is the SHA-256 of a catalogue: equal ones list the same.
type CatalogueDigest [sha256.Size]byte

// Entry is one tool of a catalogue.
type Entry struct {
	Name          string // as the agent sees it: skill__tool
	SkillID       uuid.UUID
	Skill         string
	SkillRevision int64
	Tool          tool.Definition
}

// NewCatalogue makes a catalogue of entries whose names differ.
func NewCatalogue(entries []Entry) *Catalogue {
	c := &Catalogue{Entries: entries, byName: make(map[string]int, len(entries))}
	hash := sha256.New()
	for i := range entries {
		e := &entries[i]
		c.byName[e.Name] = i
		pin := e.Tool.Pin()
		// Names end in what no name contains; the rest is of fixed length.
		fmt.Fprintf(hash, "%s\x00%s\x00%x%016x%x", e.Name, e.Skill, e.SkillID[:], e.SkillRevision, pin[:])
	}
	c.digest = CatalogueDigest(hash.Sum(nil))
	return c
}

// Lookup finds an entry by the name that the agent uses.
func (c *Catalogue) Lookup(name string) (*Entry, bool) {
	i, ok := c.byName[name]
	if !ok {
		return nil, false
	}
	return &c.Entries[i], true
}

// Digest tells catalogues apart: a conversation whose catalogue has another one than
// before has other tools.
func (c *Catalogue) Digest() CatalogueDigest { return c.digest }

// size is about what a catalogue takes in memory; definitions are shared.
func (c *Catalogue) size() int { return entrySize*len(c.Entries) + 1 }

const entrySize = 512

// storedEntry is an entry without its definition, which its pin finds.
type storedEntry struct {
	Name     string `json:"name"`
	SkillID  string `json:"skill_id"`
	Skill    string `json:"skill"`
	Revision int64  `json:"revision"`
	Pin      string `json:"pin"`
}

// stored is the form of the table.
func (c *Catalogue) stored() ([]byte, error) {
	stored := make([]storedEntry, len(c.Entries))
	for i := range c.Entries {
		e := &c.Entries[i]
		stored[i] = storedEntry{e.Name, e.SkillID.String(), e.Skill, e.SkillRevision, e.Tool.Pin().String()}
	}
	return json.Marshal(stored)
}

// catalogue reads a stored one: from memory, since it never changes.
func (s *Service) catalogue(ctx context.Context, digest CatalogueDigest) (*Catalogue, error) {
	return s.catalogues.Get(ctx, digest, func(ctx context.Context) (*Catalogue, error) {
		c, err := s.readCatalogue(ctx, digest)
		if err != nil {
			return nil, fmt.Errorf("read catalogue: %w", err)
		}
		return c, nil
	})
}

func (s *Service) readCatalogue(ctx context.Context, digest CatalogueDigest) (*Catalogue, error) {
	var text []byte
	err := s.pool.QueryRow(ctx, `SELECT entries FROM catalogues WHERE digest = $1`, digest[:]).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var stored []storedEntry
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	pins := make([]tool.Pin, len(stored))
	for i := range stored {
		if pins[i], err = tool.ParsePin(stored[i].Pin); err != nil {
			return nil, err
		}
	}
	definitions, err := s.discovery.Definitions(ctx, pins)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(stored))
	for i, e := range stored {
		skillID, err := uuid.Parse(e.SkillID)
		if err != nil {
			return nil, err
		}
		entries[i] = Entry{e.Name, skillID, e.Skill, e.Revision, definitions[pins[i]]}
	}
	return NewCatalogue(entries), nil
}

// Problem tells why something is missing from a conversation.
type Problem struct {
	Skill string `json:"skill"`
	Kind  string `json:"kind"` // a tool.FailureKind, or one of the kinds below
	Error string `json:"error"`
}

// The kinds of problems besides those of failures.
const (
	ProblemCollision    = "collision"      // two tools would have one name
	ProblemTooManyTools = "too_many_tools" // more than a conversation may have
	ProblemToolMissing  = "tool_missing"   // assigned by name, and not offered
	ProblemToolSkipped  = "tool_skipped"   // offered, and not usable

	// ProblemNeedsConnection: somebody has to connect the skill; until then its tools are those that were accepted last.
	ProblemNeedsConnection = "needs_connection"
	// ProblemNoPrincipal: each person has a connection of their own, and nobody is acted for.
	ProblemNoPrincipal = "no_principal"
)

const (
	maxTools           = 5000 // of a conversation
	maxSkippedProblems = 20   // of one skill
)

// offer is one assigned skill with what its server offers.
type offer struct {
	assigned assignedSkill
	listing  tool.Listing
	pins     map[string]tool.PinStatus // what an operator said of its definitions
	problem  *Problem                  // nil: it was listed
}

// compose makes the catalogue of what was offered, and of what the agent has of its own.
func compose(offers []offer, own []Entry) (*Catalogue, []Problem) {
	var problems []Problem
	var candidates []candidate
	for _, entry := range own {
		candidates = append(candidates, candidate{Entry: entry})
	}
	for _, o := range offers {
		if o.problem != nil {
			problems = append(problems, *o.problem)
			if len(o.listing.Tools) == 0 {
				continue
			}
		}
		found, missing := o.candidates()
		problems = append(problems, missing...)
		if len(candidates)+len(found) > maxTools {
			problems = append(problems, Problem{o.assigned.Name, ProblemTooManyTools, fmt.Sprintf(
				"its %d tools would make more than %d: assign only some of them", len(found), maxTools)})
			continue
		}
		candidates = append(candidates, found...)
	}
	entries, collisions := withoutCollisions(candidates)
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Skill, b.Skill), cmp.Compare(a.Tool.Name, b.Tool.Name))
	})
	return NewCatalogue(entries), append(problems, collisions...)
}

// candidate is an entry that may lose its name to another.
type candidate struct {
	Entry
	unprefixed bool
}

// candidates are the tools of a skill that the agent may use.
func (o offer) candidates() ([]candidate, []Problem) {
	var problems []Problem
	skill := o.assigned
	offered := make(map[string]bool, len(o.listing.Tools))
	var found []candidate
	for _, definition := range o.listing.Tools {
		offered[definition.Name] = true
		if skill.Tools[definition.Name].Disabled() || !skill.allows(definition.Name) ||
			o.pins[definition.Name].Refused == definition.Pin() {
			continue
		}
		found = append(found, candidate{
			Entry{tool.ExposedName(skill.prefix, definition.Name), skill.ID, skill.Name, skill.Revision, definition},
			skill.prefix == "",
		})
	}
	for _, name := range skill.only {
		if !offered[name] {
			text := plain(fmt.Sprintf("%q is assigned and not offered", name))
			problems = append(problems, Problem{skill.Name, ProblemToolMissing, text})
		}
	}
	for i, skipped := range o.listing.Skipped {
		if i == maxSkippedProblems {
			break
		}
		text := plain(fmt.Sprintf("%q: %s", skipped.Name, skipped.Reason))
		problems = append(problems, Problem{skill.Name, ProblemToolSkipped, text})
	}
	return found, problems
}

// withoutCollisions leaves out tools whose name another has too. A prefixed name wins over an
// unprefixed one, so that no server can push out what belongs to another skill; of equals none stays,
// since the choice would be arbitrary.
func withoutCollisions(candidates []candidate) ([]Entry, []Problem) {
	prefixed, unprefixed := map[string]int{tool.AwaitName: 1}, map[string]int{}
	for _, c := range candidates {
		if c.unprefixed {
			unprefixed[c.Name]++
		} else {
			prefixed[c.Name]++
		}
	}
	entries := make([]Entry, 0, len(candidates))
	var problems []Problem
	for _, c := range candidates {
		rivals := prefixed[c.Name]
		if c.unprefixed {
			rivals += unprefixed[c.Name]
		}
		if rivals > 1 || c.unprefixed && prefixed[c.Name] > 0 {
			text := plain(fmt.Sprintf("%q: another tool is named %s too", c.Tool.Name, c.Name))
			problems = append(problems, Problem{c.Skill, ProblemCollision, text})
			continue
		}
		entries = append(entries, c.Entry)
	}
	return entries, problems
}
