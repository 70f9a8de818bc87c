package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/procfs"
)

// The functions below read /proc. Without it they fail, and the figures are left out.

// readCPUMicros returns the processor time that a process has used.
func readCPUMicros(pid int) (float64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return stat.CPUTime() * 1e6, err
}

// readMemory returns the memory of a process in bytes.
func readMemory(pid int) (now, peak int64, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := p.NewStatus()
	return int64(status.VmRSS), int64(status.VmHWM), err //nolint:gosec // G115: no memory is that large
}

// readDatabaseCPU returns the processor time of each process of the database server, if it runs on this machine.
func readDatabaseCPU(ctx context.Context, pool *pgxpool.Pool) (map[int]float64, error) {
	rows, err := pool.Query(ctx, `SELECT pid FROM pg_stat_activity`)
	if err != nil {
		return nil, fmt.Errorf("list database processes: %w", err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("list database processes: %w", err)
	}
	used := make(map[int]float64, len(pids))
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue
		}
		if name, err := p.Comm(); err != nil || name != "postgres" {
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
	serve    float64
	database map[int]float64
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
		database += micros - before.database[pid]
	}
	return m.serve - before.serve, database
}

// readProc adds the processor and the load.
func (m *machine) readProc() {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	if all, err := fs.CPUInfo(); err == nil && len(all) > 0 {
		m.Processor = all[0].ModelName
	}
	if load, err := fs.LoadAvg(); err == nil {
		m.Load = strconv.FormatFloat(load.Load1, 'f', 1, 64)
	}
}
