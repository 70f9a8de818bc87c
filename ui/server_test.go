package ui_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui"
)

func TestServerSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings = ui.Server{Version: "1.2.3", DataDir: "/var/lib/holdpoint", EmbeddedDatabase: true, Stdio: true, StdioAllow: []string{"npx -y tools"}, TrustedHosts: []string{"auth.lan"}}
	w.startDashboard(slog.New(slog.DiscardHandler), w.server.URL)
	w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES (gen_random_uuid(), holdpoint_now()),
		(gen_random_uuid(), holdpoint_now() - interval '1 minute')`)
	text := strings.Join(strings.Fields(w.signedIn("olga", identity.Operator).get("/settings").find("server").Text()), " ")
	for _, want := range []string{"1.2.3", "/var/lib/holdpoint", "embedded", "auth.lan", "apply", "npx -y tools", "2 servers", "This server"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing: %s", want, text)
		}
	}
	if w.signedIn("rita", identity.Reviewer).get("/settings").find("server").Length() != 0 {
		t.Error("a reviewer sees it")
	}
}
