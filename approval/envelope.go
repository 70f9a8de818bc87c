package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/google/uuid"
)

// Digest identifies an envelope: what a decision is about. It is opaque to
// clients, which hand it back with their decision.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// errDigestForm never leaves the package with details: a wrong digest in whatever form is a mismatch.
var errDigestForm = errors.New("malformed digest")

// ParseDigest reads the form of [Digest.String]. Any other form is
// [ErrDigestMismatch]: it cannot be the digest of anything.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != 2*len(d) {
		return d, errors.Join(ErrDigestMismatch, errDigestForm)
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil || hex.EncodeToString(d[:]) != s {
		return Digest{}, errors.Join(ErrDigestMismatch, errDigestForm)
	}
	return d, nil
}

// Envelope is everything that a decision is about.
type Envelope struct {
	ApprovalID    uuid.UUID
	AgentID       uuid.UUID
	PrincipalID   uuid.UUID // uuid.Nil: none
	SkillID       uuid.UUID
	SkillRevision int64
	Tool          string
	Pin           [sha256.Size]byte
	Arguments     []byte
	FileHashes    [][]byte // of attached files, in order
	Request       []byte   // the very request that is sent, secrets masked; nil: the arguments say it all
}

// Digest is the SHA-256 over all fields, each preceded by its length, so that
// no two envelopes have the same bytes.
func (e Envelope) Digest() Digest {
	h := sha256.New()
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	field([]byte("holdpoint envelope 1"))
	field(e.ApprovalID[:])
	field(e.AgentID[:])
	field(e.PrincipalID[:])
	field(e.SkillID[:])
	field(strconv.AppendInt(nil, e.SkillRevision, 10))
	field([]byte(e.Tool))
	field(e.Pin[:])
	field(e.Arguments)
	for _, hash := range e.FileHashes {
		field(hash)
	}
	if e.Request != nil {
		field([]byte("request"))
		field(e.Request)
	}
	return Digest(h.Sum(nil))
}
