package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/view"
)

// healthRange is how far back a strip goes, and how much time a bar stands for.
type healthRange struct {
	name, word    string
	length, width time.Duration
}

func healthRanges() []healthRange {
	return []healthRange{
		{"24h", "24 hours", 24 * time.Hour, 30 * time.Minute},
		{"30d", "30 days", agent.ListingsKept, 12 * time.Hour},
	}
}

// strip draws how a skill's server answered, in the range that the request names.
func (u *UI) strip(r *http.Request, skillID uuid.UUID, now time.Time) (view.Strip, error) {
	ranges := healthRanges()
	chosen := ranges[0]
	for _, one := range ranges[1:] {
		if one.name == r.URL.Query().Get("range") {
			chosen = one
		}
	}
	from := now.Add(-chosen.length)
	spans, troubles, err := u.cfg.Agents.Listings(r.Context(), skillID, from, chosen.width)
	if err != nil {
		return view.Strip{}, err
	}
	v := view.Strip{Bars: bars(spans, from, chosen)}
	for _, one := range ranges {
		v.Ranges = append(v.Ranges, view.Tab{URL: skillURL(skillID) + "?range=" + one.name, Word: one.word, Current: one.name == chosen.name})
	}
	for _, t := range troubles {
		v.Troubles = append(v.Troubles, view.Trouble(t))
	}
	v.Label = stripWords(v.Bars, chosen.word)
	return v, nil
}

// bars are one for each span of time, also where nobody asked.
func bars(spans []agent.Span, from time.Time, of healthRange) []view.StripBar {
	list := make([]view.StripBar, of.length/of.width)
	for i := range list {
		list[i].From = from.Add(time.Duration(i) * of.width)
	}
	for _, s := range spans {
		// The database rounds to microseconds.
		if i := int((s.From.Sub(from) + time.Second) / of.width); i >= 0 && i < len(list) {
			list[i].Succeeded, list[i].Failed = s.Succeeded, s.Failed
		}
	}
	return list
}

func stripWords(list []view.StripBar, length string) string {
	asked, failed := 0, 0
	for _, b := range list {
		if b.Succeeded+b.Failed > 0 {
			asked++
		}
		if b.Failed > 0 {
			failed++
		}
	}
	switch {
	case asked == 0:
		return "In the last " + length + " nobody had to ask its server."
	case failed == 0:
		return fmt.Sprintf("In the last %s its server was asked in %d of %d spans, and always answered.", length, asked, len(list))
	}
	return fmt.Sprintf("In the last %s its server was asked in %d of %d spans, and failed in %d.", length, asked, len(list), failed)
}
