package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// fillHistory adds approved calls of the last 89 days that resemble a pending one: their calls, approvals and facts.
func (s *stage) fillHistory(ctx context.Context, n int) error {
	const ids = `(SELECT g, uuidv7_of(g) AS id, holdpoint_now() - g * interval '89 days' / $1 AS at FROM generate_series(1, $1::int) AS g) AS past`
	steps := []struct {
		table string
		with  map[string]string // the columns that differ from the pending one, as SQL
	}{
		{"calls", map[string]string{
			"id": "past.id", "status": "'succeeded'", "attach_key": "NULL", "created_at": "past.at", "finished_at": "past.at", "delivered_at": "past.at",
			"keyed_sum": "NULL",
		}},
		{"approvals", map[string]string{
			"call_id": "past.id", "status": "'approved'", "created_at": "past.at", "decided_at": "past.at", "deadline": "past.at + interval '5 minutes'",
			"decided_by": "(SELECT id FROM people LIMIT 1)",
		}},
	}
	_, err := s.pool.Exec(ctx, `CREATE FUNCTION uuidv7_of(g int) RETURNS uuid LANGUAGE sql IMMUTABLE
		AS $$ SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(g), 12, '0'))::uuid $$`)
	if err != nil {
		return fmt.Errorf("fill history: %w", err)
	}
	for _, step := range steps {
		columns, err := s.listColumns(ctx, step.table)
		if err != nil {
			return err
		}
		values := make([]string, len(columns))
		for i, c := range columns {
			if values[i] = "one." + c; step.with[c] != "" {
				values[i] = step.with[c]
			}
		}
		_, err = s.pool.Exec(ctx, `INSERT INTO `+step.table+` (`+strings.Join(columns, ", ")+`) SELECT `+strings.Join(values, ", ")+
			` FROM (SELECT `+strings.Join(columns, ", ")+` FROM `+step.table+` WHERE status IN ('parked', 'pending') LIMIT 1) AS one, `+ids, n)
		if err != nil {
			return fmt.Errorf("fill %s: %w", step.table, err)
		}
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO call_facts (call_id, agent_id, skill_id, tool, added_at, facts)
		SELECT past.id, one.agent_id, one.skill_id, one.tool, past.at,
			convert_to('[' || (SELECT string_agg('{"p":"/field' || i || '","k":115,"v":"value ' || (past.g + i) % 40 || ' of an ordinary length"}', ',') FROM generate_series(1, 40) AS i) || ']', 'UTF8')
		FROM (SELECT agent_id, skill_id, tool FROM calls WHERE status = 'parked' LIMIT 1) AS one, `+ids, n)
	if err == nil {
		_, err = s.pool.Exec(ctx, `VACUUM ANALYZE`)
	}
	if err != nil {
		return fmt.Errorf("fill facts: %w", err)
	}
	return nil
}

func (s *stage) listColumns(ctx context.Context, table string) ([]string, error) {
	var columns []string
	err := s.pool.QueryRow(ctx, `SELECT array_agg(column_name::text ORDER BY ordinal_position) FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER'`, table).Scan(&columns)
	if err != nil {
		return nil, fmt.Errorf("list columns of %s: %w", table, err)
	}
	return columns, nil
}

// reportEvidenceTimes measures pages of calls that are compared with a long history.
func (s *stage) reportEvidenceTimes(ctx context.Context, d *dashboardClient, pending int) error {
	n := choose(s.bench, 1_000_000, 2_000)
	if err := s.fillHistory(ctx, n); err != nil {
		return err
	}
	var ids []uuid.UUID
	if err := s.pool.QueryRow(ctx, `SELECT array_agg(call_id) FROM (SELECT call_id FROM approvals WHERE status = 'pending' LIMIT 200) AS pending`).Scan(&ids); err != nil {
		return fmt.Errorf("choose pending calls: %w", err)
	}
	at := strconv.Itoa(pending) + " pending, " + strconv.Itoa(n) + " approved before: "
	var evidence, pages, queue []time.Duration
	for _, id := range ids {
		began := time.Now()
		if _, err := s.api.GetApproval(ctx, id.String()); err != nil {
			return fmt.Errorf("get approval: %w", err)
		}
		evidence = append(evidence, time.Since(began))
		page, err := d.fetchPage(ctx, "/calls/"+id.String(), true)
		if err != nil {
			return err
		}
		list, err := d.fetchPage(ctx, "/", false)
		if err != nil {
			return err
		}
		pages, queue = append(pages, page.firstByte), append(queue, list.firstByte)
	}
	for _, one := range []struct {
		name string
		took []time.Duration
		aim  float64
	}{{"approval with evidence (API)", evidence, 30}, {"call page, first byte", pages, 100}, {"queue page, first byte", queue, 100}} {
		s.report.addTimes("dashboard", at+one.name+", ", one.took)
		s.report.addFigure("dashboard", at+one.name+", p95", "ms", percentile(one.took, 0.95, time.Millisecond)).aimBelow(one.aim)
	}
	return nil
}
