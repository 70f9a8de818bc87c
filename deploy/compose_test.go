// Package deploy_test checks files in this folder that other programs read.
package deploy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func loadCompose(t *testing.T, environment map[string]string) *types.Project {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}}, Environment: environment,
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestCompose loads the file as `docker compose` does, which validates it against the schema and resolves variables.
func TestCompose(t *testing.T) {
	t.Parallel()
	project := loadCompose(t, nil)
	if err := project.CheckContainerNameUnicity(); err != nil {
		t.Error(err)
	}
	holdpoint, postgres := project.Services["holdpoint"], project.Services["postgres"]
	if !slices.Equal(holdpoint.Command, []string{"demo"}) || holdpoint.Image != "ghcr.io/holdpoint/holdpoint:latest" {
		t.Errorf("command %v, image %s", holdpoint.Command, holdpoint.Image)
	}
	if got := holdpoint.DependsOn["postgres"].Condition; got != types.ServiceConditionHealthy || postgres.HealthCheck == nil {
		t.Errorf("holdpoint starts before PostgreSQL is ready: %q", got)
	}
	if *holdpoint.Environment["PGPASSWORD"] != *postgres.Environment["POSTGRES_PASSWORD"] {
		t.Error("the two services have different passwords")
	}
	if url := *holdpoint.Environment["HOLDPOINT_DEMO_DATABASE_URL"]; !strings.Contains(url, "@postgres/"+*postgres.Environment["POSTGRES_DB"]+"?") {
		t.Errorf("database %s", url)
	}
	for _, port := range holdpoint.Ports {
		if port.HostIP != "127.0.0.1" || port.Target != 8080 {
			t.Errorf("port %+v", port)
		}
	}
	if !holdpoint.ReadOnly || !slices.Contains(holdpoint.CapDrop, "ALL") {
		t.Error("holdpoint may write to its root, or has capabilities")
	}
	own := loadCompose(t, map[string]string{"HOLDPOINT_COMMAND": "serve", "POSTGRES_PASSWORD": "other", "HOLDPOINT_VERSION": "1.2.3"})
	if got := own.Services["holdpoint"]; !slices.Equal(got.Command, []string{"serve"}) || *got.Environment["PGPASSWORD"] != "other" || !strings.HasSuffix(got.Image, ":1.2.3") {
		t.Errorf("with variables: %v, %v, %s", got.Command, got.Environment, got.Image)
	}
}
