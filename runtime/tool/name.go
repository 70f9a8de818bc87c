package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

const (
	// MaxExposedName bounds the names that agents see.
	MaxExposedName = 64
	// AwaitName is the synthetic tool that fetches the outcome of a call. No
	// skill's tool may have this name.
	AwaitName = "holdpoint_await"

	// NameRule says in words what [ValidName] takes.
	NameRule = "must be 1 to 63 of a-z, 0-9, _ and -, begin with a letter or digit, not end in _, and have no two _ in a row"

	maxName    = 63
	separator  = "__"
	hashDigits = 8
)

var nameForm = regexp.MustCompile(`^[a-z0-9](_?[a-z0-9-])*$`)

// ValidName reports whether a skill, or an agent, may have this name. It also keeps exposed names apart: __ ends the prefix, always.
func ValidName(name string) bool { return len(name) <= maxName && nameForm.MatchString(name) }

// ExposedName is the name by which an agent sees a skill's tool: prefix__tool,
// or the tool's own name when the prefix is empty. It has at most
// [MaxExposedName] characters of [A-Za-z0-9_-] and depends on nothing but its arguments. A name
// that had to be cut, or had other characters, ends in a hash of the whole, so that
// two tools of one prefix hardly ever get the same name; a server that tries to
// make it happen can do so only among its own tools.
func ExposedName(prefix, toolName string) string {
	name := toolName
	if prefix != "" {
		name = prefix + separator + toolName
	}
	plain := strings.Map(func(r rune) rune {
		if isNameRune(r) {
			return r
		}
		return '_'
	}, name)
	if plain == name && len(plain) <= MaxExposedName && plain != "" {
		return plain
	}
	sum := sha256.Sum256([]byte(prefix + "\x00" + toolName))
	hash := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	return plain[:min(len(plain), MaxExposedName-len(hash))] + hash
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
