package skills

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// barHeight returns the height of a bar in a strip of 40.
func barHeight(b StripBar) int {
	switch {
	case b.Failed > 0:
		return 40
	case b.Succeeded > 0:
		return 22
	}
	return 2
}

func barClass(b StripBar) string {
	switch {
	case b.Failed > 0 && b.Succeeded > 0:
		return "look-unknown"
	case b.Failed > 0:
		return "look-failed"
	case b.Succeeded > 0:
		return "look-done"
	}
	return "rest"
}

// describeBar counts the checks in the time of a bar, in UTC.
func describeBar(b StripBar) text.Message {
	from := text.Time(b.From.UTC(), text.FormatMinuteUTC())
	if b.Succeeded+b.Failed == 0 {
		return text.SkillBarUnchecked(from)
	}
	return text.SkillBar(from, b.Succeeded, b.Failed)
}
