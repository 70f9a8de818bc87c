package call

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Bounds on the stored resources of one result. Others cannot be read through the result.
const (
	maxReturned    = 1000
	maxReturnedURI = 8 << 10 // bytes
)

// FindReturningSkills returns the skills whose succeeded calls in a conversation returned a resource, as a link or embedded.
func (s *Service) FindReturningSkills(ctx context.Context, viewer Viewer, conversation uuid.UUID, uri string) ([]uuid.UUID, error) {
	hash := sha256.Sum256([]byte(uri))
	rows, _ := s.Pool.Query(ctx, `SELECT r.skill_id FROM call_resources r JOIN calls c ON c.id = r.call_id
		WHERE r.conversation_id = $1 AND r.uri_hash = $2 AND c.status = 'succeeded'
			AND c.conversation_id = $1 AND c.agent_id = $3 AND c.principal_id IS NOT DISTINCT FROM $4`,
		conversation, hash[:], viewer.AgentID, postgres.OrNull(viewer.PrincipalID))
	skills, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find a returned resource: %w", err)
	}
	return skills, nil
}

// insertReturnedSQL stores the resources of calls that the current transaction finished.
const insertReturnedSQL = `INSERT INTO call_resources (conversation_id, uri_hash, skill_id, call_id)
	SELECT e.conversation_id, e.uri_hash, e.skill_id, e.subject_id
	FROM unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::uuid[]) AS e(conversation_id, uri_hash, skill_id, subject_id)
	WHERE ` + justWritten + ` ON CONFLICT DO NOTHING`

// queueReturned adds the resources of results to the batch that writes outcomes.
func queueReturned(batch *pgx.Batch, moves []*move) {
	rows := returnedRows(moves)
	if len(rows) == 0 {
		return
	}
	n := len(rows)
	conversations, skills, calls, hashes := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n), make([][]byte, n)
	for i := range rows {
		conversations[i], hashes[i], skills[i], calls[i] = rows[i].conversation, rows[i].hash[:], rows[i].skill, rows[i].call
	}
	batch.Queue(insertReturnedSQL, conversations, hashes, skills, calls)
}

// returnedRow is one of call_resources.
type returnedRow struct {
	conversation, skill, call uuid.UUID
	hash                      [sha256.Size]byte
}

// returnedRows returns rows in the order of their key, so that two transactions with the same resources cannot deadlock.
func returnedRows(moves []*move) []returnedRow {
	var rows []returnedRow
	for _, m := range moves {
		c := m.call
		if m.status != Succeeded || c.ConversationID == uuid.Nil {
			continue
		}
		for _, uri := range returnedURIs(m.result) {
			rows = append(rows, returnedRow{c.ConversationID, c.SkillID, c.ID, sha256.Sum256([]byte(uri))})
		}
	}
	slices.SortFunc(rows, func(a, b returnedRow) int {
		return cmp.Or(bytes.Compare(a.conversation[:], b.conversation[:]), bytes.Compare(a.hash[:], b.hash[:]), bytes.Compare(a.skill[:], b.skill[:]))
	})
	return rows
}

// returnedURIs returns the URIs of the linked and embedded resources of a result.
func returnedURIs(result json.RawMessage) []string {
	if !bytes.Contains(result, []byte("resource")) && !bytes.Contains(result, []byte(`\u`)) {
		return nil // the usual case
	}
	var read struct { // jsonv2 compares names exactly and refuses duplicates
		Content []struct {
			Type     string `json:"type"`
			URI      string `json:"uri"`
			Resource struct {
				URI string `json:"uri"`
			} `json:"resource"`
		} `json:"content"`
	}
	if jsonv2.Unmarshal(result, &read, jsontext.AllowInvalidUTF8(false)) != nil {
		return nil // an unreadable result gives no access
	}
	var uris []string
	for _, block := range read.Content {
		uri := ""
		switch block.Type {
		case "resource_link":
			uri = block.URI
		case "resource":
			uri = block.Resource.URI
		}
		if uri != "" && len(uri) <= maxReturnedURI && len(uris) < maxReturned {
			uris = append(uris, uri)
		}
	}
	return uris
}
