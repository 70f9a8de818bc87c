package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Prefix tells what a credential is for, to people and to secret scanners.
type Prefix string

// The prefixes of Holdpoint's credentials.
const (
	AgentKey      Prefix = "hpa_"
	PersonalToken Prefix = "hpp_"
	SignIn        Prefix = "hps_"
	Invitation    Prefix = "hpi_"
)

// Hash is what is stored of a credential. A credential has 256 random bits, so
// a plain SHA-256 cannot be searched.
type Hash [sha256.Size]byte

// HashOf digests a credential.
func HashOf(credential string) Hash { return sha256.Sum256([]byte(credential)) }

// Credential is a new secret, with what may be kept of it.
type Credential struct {
	Secret string // shown once
	Hash   Hash
	Hint   string // the first characters, to tell credentials apart
}

const (
	letters     = "abcdefghijklmnopqrstuvwxyz234567"
	hintLetters = 4
)

// NewCredential makes one.
func NewCredential(prefix Prefix) Credential {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand crashes the program instead
	encoding := base32.NewEncoding(letters).WithPadding(base32.NoPadding)
	text := string(prefix) + encoding.EncodeToString(random[:])
	return Credential{Secret: text, Hash: HashOf(text), Hint: text[:len(prefix)+hintLetters]}
}

// Is reports whether a credential looks like one of this kind.
func (p Prefix) Is(credential string) bool { return strings.HasPrefix(credential, string(p)) }
