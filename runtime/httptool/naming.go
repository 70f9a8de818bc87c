package httptool

import (
	"strconv"
	"strings"
)

const (
	toolNameLength     = 64
	argumentNameLength = 64
)

func isToolName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

func isArgumentName(r rune) bool { return isToolName(r) || r == '.' }

// names makes names fit for a purpose, and different from each other.
type names struct {
	limit int
	fits  func(rune) bool
	taken map[string]bool
	next  map[string]int // the number that the next one alike tries
}

func newNames(limit int, fits func(rune) bool) *names {
	return &names{limit, fits, map[string]bool{}, map[string]int{}}
}

// take gives the first of these names that is free, made to fit; or the last one with _2, _3 and so on.
func (n *names) take(wanted ...string) string {
	last := "_"
	for _, w := range wanted {
		last = n.fit(w)
		if !n.taken[last] {
			n.taken[last] = true
			return last
		}
	}
	for i := max(2, n.next[last]); ; i++ {
		if name := n.with(last, "_"+strconv.Itoa(i)); !n.taken[name] {
			n.next[last] = i + 1
			n.taken[name] = true
			return name
		}
	}
}

// fit replaces what does not fit by _, and cuts what is too long.
func (n *names) fit(name string) string {
	name = strings.Map(func(r rune) rune {
		if n.fits(r) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "_"
	}
	return name[:min(len(name), n.limit)]
}

// with is a name with something at its end, cut so that it fits.
func (n *names) with(name, suffix string) string {
	return name[:min(len(name), n.limit-len(suffix))] + suffix
}
