package agent

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// attention says which team's attention calls want, and which team is asked at half of the deadline.
// Teams are named as sign-ins and operators name those of people.
type attention struct {
	Team, EscalateTo string // empty: none
}

const maxTeam = 128 // bytes

// with is what a patch makes of it.
func (a attention) with(team, escalateTo *string) attention {
	set(&a.Team, team)
	set(&a.EscalateTo, escalateTo)
	return a
}

func (a attention) validate(r report) {
	r.team("team", a.Team)
	r.team("escalate_to", a.EscalateTo)
	r.check(a.EscalateTo == "" || a.EscalateTo != a.Team, "escalate_to", "must be another team than team")
}

func (r report) team(field, name string) {
	unprintable := func(c rune) bool { return !strconv.IsPrint(c) }
	r.check(len(name) <= maxTeam && utf8.ValidString(name) && !strings.ContainsFunc(name, unprintable) &&
		strings.TrimSpace(name) == name, field,
		fmt.Sprintf("must be at most %d bytes of printable text without spaces at its ends", maxTeam))
}

func (a attention) fields() []field {
	var list []field
	if a.Team != "" {
		list = append(list, field{name: "team", value: a.Team})
	}
	if a.EscalateTo != "" {
		list = append(list, field{name: "escalate_to", value: a.EscalateTo})
	}
	return list
}
