package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	maxTools           = 5000 // of a conversation
	maxSkippedProblems = 20   // of one skill
)

// skillListing is an assigned skill with the tools that its server offers.
type skillListing struct {
	skill   agent.AssignedSkill
	listing tool.Listing
	pins    map[string]tool.PinStatus // the operators' decisions on its definitions
	problem *Problem                  // nil: the skill was listed
}

// candidate is an entry whose name may collide with another one.
type candidate struct {
	Entry
	unprefixed bool
}

// composeCatalog makes a catalog of the listed tools and the agent's own tools.
func composeCatalog(listings []skillListing, builtin []Entry) (*Catalog, []Problem) {
	var problems []Problem
	var candidates []candidate
	for _, entry := range builtin {
		candidates = append(candidates, candidate{Entry: entry})
	}
	for _, l := range listings {
		if l.problem != nil {
			problems = append(problems, *l.problem)
			if len(l.listing.Tools) == 0 {
				continue
			}
		}
		found, missing := l.selectTools()
		problems = append(problems, missing...)
		if len(candidates)+len(found) > maxTools {
			problems = append(problems, newProblem(l.skill.Name, ProblemTooManyTools, fmt.Sprintf(
				"its %d tools would make more than %d: assign only some of them", len(found), maxTools)))
			continue
		}
		candidates = append(candidates, found...)
	}
	entries, collisions := removeCollisions(candidates)
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Skill, b.Skill), cmp.Compare(a.Tool.Name, b.Tool.Name))
	})
	return NewCatalog(entries), append(problems, collisions...)
}

// selectTools returns the tools of a skill that the agent may use.
func (l skillListing) selectTools() ([]candidate, []Problem) {
	var problems []Problem
	skill := l.skill
	offered := make(map[string]bool, len(l.listing.Tools))
	var found []candidate
	for _, definition := range l.listing.Tools {
		offered[definition.Name] = true
		if skill.Tools[definition.Name].Disabled() || !skill.AllowsTool(definition.Name) ||
			l.pins[definition.Name].Refused == definition.Pin() {
			continue
		}
		found = append(found, candidate{
			Entry{tool.ExposedName(skill.Prefix, definition.Name), skill.ID, skill.Name, skill.Revision, definition},
			skill.Prefix == "",
		})
	}
	for _, name := range skill.AllowedTools {
		if !offered[name] {
			problems = append(problems, newProblem(skill.Name, ProblemToolMissing, fmt.Sprintf("%q is assigned and not offered", name)))
		}
	}
	for i, skipped := range l.listing.Skipped {
		if i == maxSkippedProblems {
			break
		}
		problems = append(problems, newProblem(skill.Name, ProblemToolSkipped, fmt.Sprintf("%q: %s", skipped.Name, skipped.Reason)))
	}
	return found, problems
}

// removeCollisions removes tools with the same name. A prefixed name wins over an unprefixed one, so that a server cannot replace
// the tool of another skill. Between equals the choice would be arbitrary, so all are removed.
func removeCollisions(candidates []candidate) ([]Entry, []Problem) {
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
			problems = append(problems, newProblem(c.Skill, ProblemCollision, fmt.Sprintf("%q: another tool is named %s too", c.Tool.Name, c.Name)))
			continue
		}
		entries = append(entries, c.Entry)
	}
	return entries, problems
}
