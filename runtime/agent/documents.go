package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Document is an OpenAPI document that a skill was given by value, by its SHA-256 in hex. ErrNotFound.
func (s *Service) Document(ctx context.Context, digest string) ([]byte, error) {
	if lent, ok := s.drafts.find(digest); ok {
		return lent, nil
	}
	sum, err := hex.DecodeString(digest)
	if err != nil {
		return nil, fmt.Errorf("document %q: %w", digest, ErrNotFound)
	}
	var document []byte
	err = s.pool.QueryRow(ctx, `SELECT document FROM skill_documents WHERE digest = $1`, sum).Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("document %s: %w", digest, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", digest, err)
	}
	return document, nil
}

// keepDocument stores the document that a skill was just given.
func (e *edit) keepDocument(ctx context.Context, s *skillState) error {
	if s.API.document == nil {
		return nil
	}
	_, err := e.tx.Exec(ctx, `INSERT INTO skill_documents (digest, document) VALUES (decode($1, 'hex'), $2) ON CONFLICT DO NOTHING`,
		s.API.Document, s.API.document)
	if err != nil {
		return fmt.Errorf("store document: %w", err)
	}
	return nil
}

// dropDocument deletes the document that a skill had, unless one has it still.
func (e *edit) dropDocument(ctx context.Context, api *tool.API) error {
	if api == nil || api.Document == "" {
		return nil
	}
	_, err := e.tx.Exec(ctx, `DELETE FROM skill_documents WHERE digest = decode($1, 'hex') AND NOT EXISTS (
		SELECT FROM skills WHERE deleted_at IS NULL AND settings #>> '{api,document}' = $1)`, api.Document)
	if err != nil {
		return fmt.Errorf("delete document: %w", err)
	}
	return nil
}
