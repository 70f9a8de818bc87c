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

// The functions below read /proc. Without it they fail, and the figures are left out.

// tickMicros is the unit of times in /proc. It is the same on every Linux.
const tickMicros = 10_000

// readCPUMicros returns the processor time that a process has used.
func readCPUMicros(pid int) (int64, error) {
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

// readMemory returns the memory of a process in bytes.
func readMemory(pid int) (now, peak int64, err error) {
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

// readDatabaseCPU returns the processor time of each process of the database server, if it runs on this machine.
func readDatabaseCPU(ctx context.Context, pool *pgxpool.Pool) (map[int]int64, error) {
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
		if micros, err := readCPUMicros(pid); err == nil {
			used[pid] = micros
		}
	}
	return used, nil
}

// meter is a reading of processor times, of the server and of its database.
type meter struct {
	serve    int64
	database map[int]int64
}

// readMeter takes a reading. Unreadable times count as zero, and their figures are left out.
func (s *stage) readMeter(ctx context.Context) meter {
	var m meter
	m.serve, _ = readCPUMicros(s.serve.pid())
	m.database, _ = readDatabaseCPU(ctx, s.pool)
	return m
}

// usedSince returns the time used since an earlier reading. Processes that have ended since are not counted.
func (m meter) usedSince(before meter) (serve, database float64) {
	for pid, micros := range m.database {
		database += float64(micros - before.database[pid])
	}
	return float64(m.serve - before.serve), database
}
