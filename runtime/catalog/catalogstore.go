package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// storedEntry is an entry as it is stored: the pin stands for the definition.
type storedEntry struct {
	Name     string `json:"name"`
	SkillID  string `json:"skill_id"`
	Skill    string `json:"skill"`
	Revision int64  `json:"revision"`
	Pin      string `json:"pin"`
}

// shareCatalog returns the cached catalog that equals c, or caches c.
func (s *Service) shareCatalog(c *Catalog) *Catalog {
	if cached, ok := s.catalogs.Peek(c.digest); ok {
		return cached
	}
	s.catalogs.Put(c.digest, c)
	return c
}

// storeCatalog stores a catalog unless it is cached: a cached catalog was already stored. If it was deleted since, because no conversation
// had it, the reference of the conversation fails; see [Service.storeWithCatalog].
func (s *Service) storeCatalog(ctx context.Context, tx pgx.Tx, c *Catalog) error {
	if _, stored := s.catalogs.Peek(c.digest); stored {
		return nil
	}
	entries := make([]storedEntry, len(c.Entries))
	for i := range c.Entries {
		e := &c.Entries[i]
		entries[i] = storedEntry{e.Name, e.SkillID.String(), e.Skill, e.SkillRevision, e.Tool.Pin().String()}
	}
	text, err := json.Marshal(entries)
	if builtin := c.builtinDefinitions(); err == nil && len(builtin) > 0 {
		err = tool.StoreDefinitions(ctx, tx, builtin)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO catalogues (digest, entries) VALUES ($1, $2::json)
			ON CONFLICT (digest) DO NOTHING`, c.digest[:], string(text))
	}
	if err != nil {
		return fmt.Errorf("store catalog: %w", err)
	}
	return nil
}

const foreignKeyViolation = "23503" // SQLSTATE

// storeWithCatalog runs store in a transaction, and once more without the cached catalog if the stored one was deleted meanwhile.
func (s *Service) storeWithCatalog(ctx context.Context, c *Catalog, store func(tx pgx.Tx) error) error {
	err := postgres.InTx(ctx, s.pool, store)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == foreignKeyViolation {
		s.catalogs.DropIf(func(digest Digest) bool { return digest == c.digest })
		err = postgres.InTx(ctx, s.pool, store)
	}
	return err
}

// loadCatalog returns a stored catalog. It is cached without a time limit, since catalogs never change.
func (s *Service) loadCatalog(ctx context.Context, digest Digest) (*Catalog, error) {
	return s.catalogs.Get(ctx, digest, func(ctx context.Context) (*Catalog, error) {
		c, err := s.readCatalog(ctx, digest)
		if err != nil {
			return nil, fmt.Errorf("read catalog: %w", err)
		}
		return c, nil
	})
}

func (s *Service) readCatalog(ctx context.Context, digest Digest) (*Catalog, error) {
	var text []byte
	err := s.pool.QueryRow(ctx, `SELECT entries FROM catalogues WHERE digest = $1`, digest[:]).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, agent.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var stored []storedEntry
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	pins := make([]tool.Pin, len(stored))
	for i := range stored {
		if pins[i], err = tool.ParsePin(stored[i].Pin); err != nil {
			return nil, err
		}
	}
	definitions, err := s.discovery.Definitions(ctx, pins)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(stored))
	for i, e := range stored {
		skillID, err := uuid.Parse(e.SkillID)
		if err != nil {
			return nil, err
		}
		entries[i] = Entry{e.Name, skillID, e.Skill, e.Revision, definitions[pins[i]]}
	}
	return NewCatalog(entries), nil
}
