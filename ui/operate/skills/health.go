package skills

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// healthRange is the length of a strip and of one of its bars.
type healthRange struct {
	name          string
	word          text.Message
	length, width time.Duration
}

func healthRanges() []healthRange {
	return []healthRange{
		{"24h", text.SkillLast24h(), 24 * time.Hour, 30 * time.Minute},
		{"30d", text.SkillLast30d(), agent.ListingsKept, 12 * time.Hour},
	}
}

// readStrip reads the health of a skill's server in the requested range.
func (h *Handler) readStrip(r *http.Request, skillID uuid.UUID, now time.Time) (Strip, error) {
	ranges := healthRanges()
	chosen := ranges[0]
	for _, one := range ranges[1:] {
		if one.name == r.URL.Query().Get("range") {
			chosen = one
		}
	}
	from := now.Add(-chosen.length)
	spans, troubles, err := h.agents.Listings(r.Context(), skillID, from, chosen.width)
	if err != nil {
		return Strip{}, err
	}
	v := Strip{Bars: fillBars(spans, from, chosen)}
	for _, one := range ranges {
		v.Ranges = append(v.Ranges, view.Tab{URL: present.SkillURL(skillID) + "?range=" + one.name, Word: one.word, Current: one.name == chosen.name})
	}
	for _, t := range troubles {
		v.Troubles = append(v.Troubles, Trouble(t))
	}
	v.Label = describeStrip(v.Bars, chosen.word)
	return v, nil
}

// fillBars returns a bar for each span of time, also for spans without checks.
func fillBars(spans []agent.Span, from time.Time, of healthRange) []StripBar {
	list := make([]StripBar, of.length/of.width)
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

func describeStrip(list []StripBar, length text.Message) text.Message {
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
		return text.SkillNeverChecked(length)
	case failed == 0:
		return text.SkillCheckedWell(length, asked, len(list))
	}
	return text.SkillCheckedFailed(length, asked, len(list), failed)
}
