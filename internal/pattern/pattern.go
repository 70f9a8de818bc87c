// Package pattern compares names with patterns in which * stands for any characters.
package pattern

import (
	"slices"
	"strings"
)

// MatchesAny reports whether a name matches one of the patterns. An empty list matches all names.
func MatchesAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

// matches compares a name with a pattern in which * stands for any characters.
func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == name
	}
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return len(rest) >= len(last) && strings.HasSuffix(rest, last)
}
