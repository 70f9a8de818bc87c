package skills

import (
	"context"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
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

// describeBar counts the checks in the time of a bar.
func describeBar(ctx context.Context, b StripBar) text.Message {
	from := view.FormatTime(ctx, b.From)
	if b.Succeeded+b.Failed == 0 {
		return text.SkillBarUnchecked(from)
	}
	return text.SkillBar(from, b.Succeeded, b.Failed)
}
