package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const profileTime = 6 * time.Second

// profileLoad writes a CPU profile of the server under a load if profiles are wanted. The load must last for the given time.
func (s *stage) profileLoad(ctx context.Context, name string, load func(ctx context.Context, d time.Duration) error) error {
	if s.pprof == "" {
		return nil
	}
	s.logf("  profiling")
	loaded := make(chan error, 1)
	go func() { loaded <- load(ctx, profileTime+time.Second) }()
	err := s.writeProfile(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileTime.Seconds())), name+"-cpu.pprof")
	return errors.Join(err, <-loaded, s.writeSnapshot(ctx, name))
}

// writeSnapshot writes profiles of the server's memory and goroutines if profiles are wanted.
func (s *stage) writeSnapshot(ctx context.Context, name string) error {
	if s.pprof == "" {
		return nil
	}
	return errors.Join(
		s.writeProfile(ctx, "/debug/pprof/allocs", name+"-allocs.pprof"),
		s.writeProfile(ctx, "/debug/pprof/heap?gc=1", name+"-heap.pprof"),
		s.writeProfile(ctx, "/debug/pprof/goroutine?debug=1", name+"-goroutines.txt"),
	)
}

func (s *stage) writeProfile(ctx context.Context, path, file string) error {
	text, err := s.get(ctx, s.pprof, path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.cpuProfile, file), text, 0o600); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}
