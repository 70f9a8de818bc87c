package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

// startPprof serves Go's profiles on an address of its own until the process ends. They are for the operator of the machine,
// and not reachable through the server.
func startPprof(ctx context.Context, addr string, edge cli.Edge, log *slog.Logger) error {
	listener, err := openListener(ctx, addr, edge, nil, log)
	if err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	log.Warn("profiles are served; keep this address private", "addr", listener.Addr().String())
	server := listener.Server(mux)
	go func() {
		if err := listener.Serve(server); err != nil {
			log.Error("serve profiles", "error", err)
		}
	}()
	return nil
}
