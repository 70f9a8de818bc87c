package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What the system says of processes. Where there is no /proc these are errors, and
// the figures are left out.

// tick is the unit of times in /proc, which is the same on every Linux.
const tickMicros = 10_000

// cpuMicros is the processor time that a process has used.
func cpuMicros(pid int) (int64, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // after the name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read processor time: %d fields", len(fields))
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if errUser != nil || errSystem != nil {
		return 0, fmt.Errorf("read processor time: %s", rest)
	}
	return (user + system) * tickMicros, nil
}

// memory of a process, in bytes.
func memory(pid int) (now, peak int64, err error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		var into *int64
		switch name {
		case "VmRSS":
			into = &now
		case "VmHWM":
			into = &peak
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read memory: %w", err)
		}
		*into = kib << 10
	}
	return now, peak, nil
}

// databaseCPU is the processor time of the database server's processes, if
// they run here.
func databaseCPU(ctx context.Context, pool *pgxpool.Pool) (map[int]int64, error) {
	rows, err := pool.Query(ctx, `SELECT pid FROM pg_stat_activity`)
	if err != nil {
		return nil, fmt.Errorf("list database processes: %w", err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("list database processes: %w", err)
	}
	used := make(map[int]int64, len(pids))
	for _, pid := range pids {
		name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != "postgres" {
			continue
		}
		if micros, err := cpuMicros(pid); err == nil {
			used[pid] = micros
		}
	}
	return used, nil
}

// meter reads the processor time of the server and of its database.
type meter struct {
	serve    int64
	database map[int]int64
}

// meter takes a reading. What cannot be read counts as nothing used, and its figure is left out.
func (s *stage) meter(ctx context.Context) meter {
	var m meter
	m.serve, _ = cpuMicros(s.serve.pid())
	m.database, _ = databaseCPU(ctx, s.pool)
	return m
}

// since is what was used after an earlier reading. A process that ended in between is lost.
func (m meter) since(before meter) (serve, database float64) {
	for pid, micros := range m.database {
		database += float64(micros - before.database[pid])
	}
	return float64(m.serve - before.serve), database
}
