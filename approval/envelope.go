package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"strconv"

	"github.com/google/uuid"
)

// Digest identifies the envelope that a decision is about. Clients treat it as opaque and send it with their decision.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// errDigestForm is joined to [ErrDigestMismatch]: a malformed digest is a mismatch like any other.
var errDigestForm = errors.New("malformed digest")

// ParseDigest reads the form that [Digest.String] writes. For any other form it returns [ErrDigestMismatch].
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

// EditDigest identifies a proposed edit by its envelope and its editor.
func EditDigest(envelope Digest, editor uuid.UUID) Digest {
	h := sha256.New()
	h.Write([]byte("holdpoint edit 1"))
	h.Write(envelope[:])
	h.Write(editor[:])
	return Digest(h.Sum(nil))
}

// Envelope holds everything that a decision on a call is about.
type Envelope struct {
	ApprovalID    uuid.UUID
	AgentID       uuid.UUID
	PrincipalID   uuid.UUID // uuid.Nil: none
	SkillID       uuid.UUID
	SkillRevision int64
	Tool          string
	Pin           [sha256.Size]byte
	Arguments     []byte
	FileHashes    [][]byte // SHA-256s of the attached files, in order
	Request       []byte   // the request to be sent, secrets masked; nil: the arguments are the whole request
}

// Digest returns the SHA-256 over all fields. Each is preceded by its length, so no two envelopes hash the same bytes.
func (e Envelope) Digest() Digest {
	h := sha256.New()
	field := fieldWriter(h)
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

// QuestionEnvelope holds everything that a decision on a server's question (elicitation, sampling) is about.
type QuestionEnvelope struct {
	ApprovalID uuid.UUID // of the call during which the server asks
	Number     int
	Method     string
	Params     []byte
	Answer     []byte // the client's; nil: the decision comes before the client sees the question
}

// Digest returns the SHA-256 over all fields, each preceded by its length.
func (e QuestionEnvelope) Digest() Digest {
	h := sha256.New()
	field := fieldWriter(h)
	field([]byte("holdpoint question 1"))
	field(e.ApprovalID[:])
	field(strconv.AppendInt(nil, int64(e.Number), 10))
	field([]byte(e.Method))
	field(e.Params)
	if e.Answer != nil {
		field(e.Answer)
	}
	return Digest(h.Sum(nil))
}

// fieldWriter returns a function that hashes one field, preceded by its length.
func fieldWriter(h hash.Hash) func([]byte) {
	return func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
}
