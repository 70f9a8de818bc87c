package openapi

import (
	"strconv"
	"strings"
)

const (
	toolNameLength     = 64
	argumentNameLength = 64
)

func isToolRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

func isArgumentRune(r rune) bool { return isToolRune(r) || r == '.' }

// nameSet makes names valid and unique.
type nameSet struct {
	limit int
	valid func(rune) bool
	taken map[string]bool
	next  map[string]int // the first suffix to try for the next name alike
}

func newNameSet(limit int, valid func(rune) bool) *nameSet {
	return &nameSet{limit, valid, map[string]bool{}, map[string]int{}}
}

// takeName returns the first wanted name that is free after [nameSet.fitName], or the last one with _2, _3 and so on.
func (n *nameSet) takeName(wanted ...string) string {
	last := "_"
	for _, w := range wanted {
		last = n.fitName(w)
		if !n.taken[last] {
			n.taken[last] = true
			return last
		}
	}
	for i := max(2, n.next[last]); ; i++ {
		if name := n.withSuffix(last, "_"+strconv.Itoa(i)); !n.taken[name] {
			n.next[last] = i + 1
			n.taken[name] = true
			return name
		}
	}
}

// fitName replaces invalid characters by _ and truncates the name.
func (n *nameSet) fitName(name string) string {
	name = strings.Map(func(r rune) rune {
		if n.valid(r) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "_"
	}
	return name[:min(len(name), n.limit)]
}

// withSuffix appends a suffix to a name, truncated so that both fit.
func (n *nameSet) withSuffix(name, suffix string) string {
	return name[:min(len(name), n.limit-len(suffix))] + suffix
}
