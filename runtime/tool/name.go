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
	// AwaitName is the tool of Holdpoint that fetches the outcome of a call. No skill's tool may have this name.
	AwaitName = "holdpoint_await"

	// NameRule is the rule of [ValidName] in words.
	NameRule = "must be 1 to 63 of a-z, 0-9, _ and -, begin with a letter or digit, not end in _, and have no two _ in a row"

	maxName    = 63
	separator  = "__"
	hashDigits = 8
)

var nameForm = regexp.MustCompile(`^[a-z0-9](_?[a-z0-9-])*$`)

// ValidName reports whether a skill or an agent may have this name. It also keeps exposed names unambiguous: the first __ always ends the
// prefix.
func ValidName(name string) bool { return len(name) <= maxName && nameForm.MatchString(name) }

// ExposedName returns the name by which an agent sees a skill's tool: prefix__tool, or the tool's own name if the prefix is empty. It has
// at most [MaxExposedName] characters of [A-Za-z0-9_-] and depends only on its arguments. A name that was cut or had other characters ends
// in a hash of the whole, so that two tools of one prefix rarely get the same name. A hostile server can only cause collisions among its
// own tools.
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
