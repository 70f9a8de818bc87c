package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Prefix marks the kind of a credential, for people and secret scanners.
type Prefix string

// The prefixes of Holdpoint's credentials.
const (
	AgentKey      Prefix = "hpa_"
	PersonalToken Prefix = "hpp_"
	SignIn        Prefix = "hps_"
	Invitation    Prefix = "hpi_"
)

// Hash is the stored form of a credential. A credential has 256 random bits, so a plain SHA-256 cannot be searched.
type Hash [sha256.Size]byte

// HashOf returns the hash of a credential.
func HashOf(credential string) Hash { return sha256.Sum256([]byte(credential)) }

// Credential is a new credential.
type Credential struct {
	Secret string // shown once
	Hash   Hash
	Hint   string // the first characters, to tell credentials apart
}

const (
	credentialAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	hintLetters        = 4
)

// NewCredential makes a credential.
func NewCredential(prefix Prefix) Credential {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	encoding := base32.NewEncoding(credentialAlphabet).WithPadding(base32.NoPadding)
	text := string(prefix) + encoding.EncodeToString(random[:])
	return Credential{Secret: text, Hash: HashOf(text), Hint: text[:len(prefix)+hintLetters]}
}

// Is reports whether a credential has the prefix.
func (p Prefix) Is(credential string) bool { return strings.HasPrefix(credential, string(p)) }
