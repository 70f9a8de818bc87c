package trial

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// DraftTTL is how long a draft is kept after its last change.
const DraftTTL = 2 * time.Hour

// maxDrafts bounds the drafts of one person. A new draft replaces the oldest one.
const maxDrafts = 5

// draftPurpose binds sealed values to the table of drafts.
const draftPurpose = "skill draft"

// Draft is a skill that a person is about to register. Only that person can read it, and it is deleted after [DraftTTL].
type Draft struct {
	ID   uuid.UUID       `json:"-"`
	Spec agent.SkillSpec `json:"spec"`
	// Notes are the caller's own, such as the step of the form.
	Notes json.RawMessage `json:"notes,omitempty"`
}

// SaveDraft stores a person's draft. It inserts a draft without an id and sets the id.
func (s *Service) SaveDraft(ctx context.Context, person uuid.UUID, d *Draft) error {
	isNew := d.ID == uuid.Nil
	if isNew {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		d.ID = id
	}
	stored := *d
	document := []byte(stored.Spec.Document)
	digest := sha256.Sum256(document)
	stored.Spec.Document = ""
	text, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("save draft %s: %w", d.ID, err)
	}
	sealed, err := s.box.Seal(text, secret.For(draftPurpose, d.ID))
	if err != nil {
		return fmt.Errorf("save draft %s: %w", d.ID, err)
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if isNew {
			_, err := tx.Exec(ctx, `DELETE FROM skill_drafts WHERE updated_at < holdpoint_now() - $1::interval OR id IN (
				SELECT id FROM skill_drafts WHERE person_id = $2 ORDER BY updated_at DESC, id DESC OFFSET $3)`, DraftTTL, person, maxDrafts-1)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO skill_drafts (id, person_id, spec, digest, document) VALUES ($1, $2, $3, $4, $5)`,
				d.ID, person, sealed, digest[:], document)
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE skill_drafts SET spec = $3, updated_at = holdpoint_now(),
				document = CASE WHEN digest = $4 THEN document ELSE $5 END, digest = $4
			WHERE id = $1 AND person_id = $2`, d.ID, person, sealed, digest[:], document)
		if err == nil && tag.RowsAffected() == 0 {
			err = agent.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("save draft %s: %w", d.ID, err)
	}
	return nil
}

// Draft returns a person's draft. It returns agent.ErrNotFound also if the draft has expired, or if its key was removed from the
// keyset.
func (s *Service) Draft(ctx context.Context, person, id uuid.UUID) (*Draft, error) {
	var sealed, document []byte
	err := s.pool.QueryRow(ctx, `SELECT spec, document FROM skill_drafts
		WHERE id = $1 AND person_id = $2 AND updated_at > holdpoint_now() - $3::interval`, id, person, DraftTTL).Scan(&sealed, &document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("draft %s: %w", id, agent.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read draft %s: %w", id, err)
	}
	text, err := s.box.Open(sealed, secret.For(draftPurpose, id))
	if err != nil {
		return nil, fmt.Errorf("draft %s: %w", id, agent.ErrNotFound)
	}
	d := &Draft{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read draft %s: %w", id, err)
	}
	d.ID, d.Spec.Document = id, string(document)
	return d, nil
}

// DeleteDraft deletes a person's draft.
func (s *Service) DeleteDraft(ctx context.Context, person, id uuid.UUID) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM skill_drafts WHERE id = $1 AND person_id = $2`, id, person); err != nil {
		return fmt.Errorf("delete draft %s: %w", id, err)
	}
	return nil
}

// Document returns an OpenAPI document by its SHA-256 in hex: the document of a registered skill, or of a draft that is being
// tried. ErrNotFound.
func (s *Service) Document(ctx context.Context, digest string) ([]byte, error) {
	if document, ok := s.documents.find(digest); ok {
		return document, nil
	}
	return s.agents.Document(ctx, digest)
}

// draftDocuments holds the documents of drafts while they are being tried, by their digests in hex.
type draftDocuments struct {
	mu   sync.Mutex
	lent map[string]*lentDocument
}

type lentDocument struct {
	document []byte
	users    int
}

// lend adds a document until the caller calls done. A nil document is stored already.
func (l *draftDocuments) lend(digest string, document []byte) (done func()) {
	if document == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent == nil {
		l.lent = map[string]*lentDocument{}
	}
	if l.lent[digest] == nil {
		l.lent[digest] = &lentDocument{document: document}
	}
	l.lent[digest].users++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.lent[digest].users--; l.lent[digest].users == 0 {
			delete(l.lent, digest)
		}
	}
}

func (l *draftDocuments) find(digest string) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.lent[digest]
	if !ok {
		return nil, false
	}
	return found.document, true
}
