package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// isAboutLines reports whether a fault is about the field of the alternatives.
func isAboutLines(f fault.Field) bool { return f.Name == "any" }

// linePath is the path of a fault within an alternative of a policy.
var linePath = regexp.MustCompile(`^any\[(\d+)\]\.all(?:\[(\d+)\](.*))?$`)

// nameLine says in which line of the form a fault is. Empty lines do not count.
func nameLine(f *fault.Field) {
	at := linePath.FindStringSubmatch(f.Name)
	if at == nil {
		return
	}
	number := func(index string) int { n, _ := strconv.Atoi(index); return n + 1 }
	place := fmt.Sprintf("line %d", number(at[1]))
	if at[2] != "" {
		place += fmt.Sprintf(", part %d", number(at[2]))
	}
	if what, _, _ := strings.Cut(strings.TrimPrefix(at[3], "."), "["); what != "" {
		place += ", " + what
	}
	f.Name, f.Expected = "any", f.Expected+" ("+place+")"
}
