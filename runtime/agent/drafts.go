package agent

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
)

// DraftTTL is how long a draft is kept after its last change.
const DraftTTL = 2 * time.Hour

// maxDrafts bounds how many drafts one person has: the oldest goes.
const maxDrafts = 5

// draftPurpose binds sealed values to the table of drafts.
const draftPurpose = "skill draft"

// Draft is a skill that somebody is about to register. It is theirs alone, nothing is listed or called with it but what they try, and it
// is forgotten after [DraftTTL].
type Draft struct {
	ID   uuid.UUID `json:"-"`
	Spec SkillSpec `json:"spec"`
	// Notes are the caller's own, such as how far somebody came.
	Notes json.RawMessage `json:"notes,omitempty"`
}

// SaveDraft stores a person's draft, as a new one where it has no id.
func (s *Service) SaveDraft(ctx context.Context, person uuid.UUID, d *Draft) error {
	fresh := d.ID == uuid.Nil
	if fresh {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		d.ID = id
	}
	kept := *d
	document := []byte(kept.Spec.Document)
	kept.Spec.Document = ""
	sealed, err := seal(s.box, draftPurpose, d.ID, kept, false)
	if err != nil {
		return err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if fresh {
			return insertDraft(ctx, tx, d.ID, person, sealed, document)
		}
		tag, err := tx.Exec(ctx, `UPDATE skill_drafts SET spec = $3, updated_at = holdpoint_now(),
				document = CASE WHEN digest = $4 THEN document ELSE $5 END, digest = $4
			WHERE id = $1 AND person_id = $2`, d.ID, person, sealed, digestOf(document), document)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("save draft %s: %w", d.ID, err)
	}
	return nil
}

func digestOf(document []byte) []byte {
	sum := sha256.Sum256(document)
	return sum[:]
}

func insertDraft(ctx context.Context, tx pgx.Tx, id, person uuid.UUID, sealed, document []byte) error {
	_, err := tx.Exec(ctx, `DELETE FROM skill_drafts WHERE updated_at < holdpoint_now() - $1::interval OR id IN (
		SELECT id FROM skill_drafts WHERE person_id = $2 ORDER BY updated_at DESC, id DESC OFFSET $3)`, DraftTTL, person, maxDrafts-1)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO skill_drafts (id, person_id, spec, digest, document) VALUES ($1, $2, $3, $4, $5)`,
		id, person, sealed, digestOf(document), document)
	return err
}

// Draft is a person's own. ErrNotFound, also when it is too old, or sealed with a key that is gone.
func (s *Service) Draft(ctx context.Context, person, id uuid.UUID) (*Draft, error) {
	var sealed, document []byte
	err := s.pool.QueryRow(ctx, `SELECT spec, document FROM skill_drafts
		WHERE id = $1 AND person_id = $2 AND updated_at > holdpoint_now() - $3::interval`, id, person, DraftTTL).Scan(&sealed, &document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("draft %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read draft %s: %w", id, err)
	}
	d := &Draft{}
	text, err := s.box.Open(sealed, secret.For(draftPurpose, id))
	if err != nil {
		return nil, fmt.Errorf("draft %s: %w", id, ErrNotFound)
	}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read draft %s: %w", id, err)
	}
	d.ID, d.Spec.Document = id, string(document)
	return d, nil
}

// DropDraft forgets a person's draft.
func (s *Service) DropDraft(ctx context.Context, person, id uuid.UUID) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM skill_drafts WHERE id = $1 AND person_id = $2`, id, person); err != nil {
		return fmt.Errorf("drop draft %s: %w", id, err)
	}
	return nil
}

// lentDocuments are documents of skills that are not registered, for as long as something is done with them, by their digest in hex.
type lentDocuments struct {
	mu   sync.Mutex
	lent map[string]*lentDocument
}

type lentDocument struct {
	document []byte
	users    int
}

// lend has a document be found until the function that is returned is called.
func (l *lentDocuments) lend(digest string, document []byte) (done func()) {
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

func (l *lentDocuments) find(digest string) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.lent[digest]
	if !ok {
		return nil, false
	}
	return found.document, true
}
