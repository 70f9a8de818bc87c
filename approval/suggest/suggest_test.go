package suggest_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/suggest"
	"github.com/holdpoint/holdpoint/internal/decisionstest"
)

func nameID(name string) uuid.UUID {
	if name == "" {
		return uuid.Nil
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(name))
}

func toCalls(decisions []decisionstest.Decision) []suggest.Call {
	var calls []suggest.Call
	for _, d := range decisions {
		c := suggest.Call{
			ID: d.ID, AgentID: nameID(d.Agent), PrincipalID: nameID(d.Principal), SkillID: nameID(d.Skill), Tool: d.Tool, Pin: d.Pin,
			Arguments: d.Arguments, DecidedAt: d.DecidedAt, DecidedBy: nameID(d.DecidedBy),
		}
		switch d.Outcome {
		case decisionstest.Approved:
		case decisionstest.Edited:
			c.Outcome = suggest.Edited
		case decisionstest.Rejected:
			c.Outcome = suggest.Rejected
		case decisionstest.Expired:
			continue
		}
		calls = append(calls, c)
	}
	return calls
}

func TestScratch(t *testing.T) {
	total, passed, bad, edited := 0, 0, 0, 0
	byTool := map[string][4]int{}
	for seed := range uint64(4) {
		before, in := decisionstest.Split(decisionstest.Generate(seed), decisionstest.Weeks)
		found, _ := suggest.Find(t.Context(), toCalls(before))
		var grants []grant.Grant
		for _, s := range found {
			grants = append(grants, grant.Grant{ID: s.CallID, Spec: s.Spec})
		}
		book := grant.NewBook(grants)
		p := 0
		for _, d := range in {
			key := d.Agent + " " + d.Tool
			n := byTool[key]
			n[0]++
			if len(book.Find(&grant.Spec{AgentID: nameID(d.Agent), PrincipalID: nameID(d.Principal), SkillID: nameID(d.Skill), Tool: d.Tool, Pin: d.Pin}, d.Arguments)) > 0 {
				p++
				n[1]++
				switch d.Outcome {
				case decisionstest.Rejected:
					bad++
					n[2]++
					fmt.Println("BAD", seed, d.Planted, d.Reason, key, d.Principal, string(d.Arguments))
				case decisionstest.Edited:
					edited++
					n[3]++
				}
			}
			byTool[key] = n
		}
		total += len(in)
		passed += p
		fmt.Printf("seed %d: %d suggestions, %d of %d (%.0f%%)\n", seed, len(found), p, len(in), 100*float64(p)/float64(len(in)))
	}
	fmt.Println(total, passed, bad, edited, float64(passed)/float64(total))
	for k, n := range byTool {
		fmt.Println(k, n)
	}
}
