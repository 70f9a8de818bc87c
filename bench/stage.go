package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/client"
)

// stage is the setup of one phase: a new database, a server on it, a skill server, and an agent. The agent has the skill server
// twice: as the auto-approved skill "echo" and as the skill "gated".
type stage struct {
	*bench
	name         string
	databaseURL  string
	dataDir      string // of serve
	dropDatabase func() // nil: there is none
	pool         *pgxpool.Pool
	serve        *process
	skill        *process
	addr         string // of serve
	skillAt      string
	pprof        string         // empty: none
	token        string         // of an operator and reviewer
	api          *client.Client // with the token
	key          string         // of the agent
}

const (
	startPatience = time.Minute
	agentName     = "bench"
)

// newStage starts the setup of a phase. The flags are added to the usual ones of serve.
func (b *bench) newStage(ctx context.Context, flags ...string) (_ *stage, err error) {
	b.stages++
	s := &stage{bench: b, name: "stage" + strconv.Itoa(b.stages), token: rand.Text() + rand.Text()}
	s.dataDir = filepath.Join(b.dir, s.name)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.databaseURL, s.dropDatabase, err = s.newDatabase(ctx); err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.New(ctx, s.databaseURL); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := s.startSkill(ctx); err != nil {
		return nil, err
	}
	if err := s.startServe(ctx, flags); err != nil {
		return nil, err
	}
	return s, s.registerSkills(ctx)
}

// startSecond starts another server on the same database. Its stage has nothing else to close.
func (s *stage) startSecond(ctx context.Context, flags ...string) (*stage, error) {
	second := &stage{
		bench: s.bench, name: s.name + "-second", databaseURL: s.databaseURL, dataDir: s.dataDir, skillAt: s.skillAt, token: s.token, key: s.key,
	}
	if err := second.startServe(ctx, flags); err != nil {
		second.close()
		return nil, err
	}
	return second, nil
}

// onStage makes a measurement on a stage of its own. The flags are for serve.
func onStage(measure func(context.Context, *stage) error, flags ...string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		s, err := b.newStage(ctx, flags...)
		if err != nil {
			return err
		}
		defer s.close()
		return measure(ctx, s)
	}
}

// newDatabase makes a database on the cluster. drop removes it.
func (b *bench) newDatabase(ctx context.Context) (databaseURL string, drop func(), err error) {
	name := "holdpoint_bench_" + strings.ToLower(rand.Text()[:10])
	quoted := pgx.Identifier{name}.Sanitize()
	if _, err := b.db.Pool().Exec(ctx, "CREATE DATABASE "+quoted); err != nil {
		return "", nil, fmt.Errorf("make database: %w", err)
	}
	return withDatabase(b.db.URL(), name), func() {
		if _, err := b.db.Pool().Exec(context.Background(), "DROP DATABASE "+quoted+" WITH (FORCE)"); err != nil {
			b.logf("drop database: %v", err)
		}
	}, nil
}

// withDatabase returns the connection string of another database on the same server.
func withDatabase(text, name string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return text + " dbname=" + name // of keyword=value pairs, the last one counts
	}
	u.Path = "/" + name
	return u.String()
}

func (s *stage) startSkill(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start skill server: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, skillRole) //nolint:gosec // G204: this program itself
	s.skill, s.skillAt, err = startListener(cmd, filepath.Join(s.dir, s.name+"-skill.log"))
	if err != nil {
		return fmt.Errorf("start skill server: %w", err)
	}
	return ctx.Err()
}

func (s *stage) startServe(ctx context.Context, flags []string) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	s.addr = addr
	if s.api, err = s.newAPI(s.token); err != nil {
		return err
	}
	//nolint:gosec // G204: the measured program
	cmd := exec.CommandContext(ctx, s.binary, append([]string{"serve", "--addr", addr, "--data-dir", s.dataDir}, flags...)...)
	cmd.Env = []string{"DATABASE_URL=" + s.databaseURL, "HOLDPOINT_BOOTSTRAP_TOKEN=" + s.token}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GODEBUG"} {
		if value := s.getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if s.cpuProfile != "" {
		if s.pprof, err = freeAddr(ctx); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, "HOLDPOINT_PPROF="+s.pprof)
	}
	if s.serve, err = startProcess(cmd, filepath.Join(s.dir, s.name+"-serve.log")); err != nil {
		return err
	}
	return s.serve.waitFor(ctx, startPatience, func(ctx context.Context) bool {
		_, err := s.get(ctx, s.addr, "/readyz")
		return err == nil
	})
}

// registerSkills registers the skills and the agent, and makes a key, as an operator does.
func (s *stage) registerSkills(ctx context.Context) error {
	hour := "1h"
	server := map[string]any{"transport": "http", "url": "http://" + s.skillAt + "/mcp", "approval_timeout": hour}
	echo, gated := map[string]any{"name": "echo", "auto_approve": true}, map[string]any{"name": "gated"}
	for name, value := range server {
		echo[name], gated[name] = value, value
	}
	spec := map[string]any{
		"skills": []any{echo, gated},
		"agents": []any{map[string]any{
			"name": agentName, "wait_budget": hour, "limits": map[string]any{"pending": 100_000}, "skills": []any{map[string]any{"skill": "echo"}, map[string]any{"skill": "gated"}},
		}},
	}
	if _, err := s.api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": spec}); err != nil {
		return err
	}
	made, err := client.Value(s.api.CreateKey(ctx, agentName))
	s.key = made.Key
	return err
}

// The three targets are the skill server itself, and the two skills of the agent.
func (s *stage) directTarget() target { return target{addr: s.skillAt, path: "/mcp", tool: "echo"} }

func (s *stage) openTarget() target {
	return target{addr: s.addr, path: "/agents/" + agentName + "/mcp", key: s.key, tool: "echo__echo"}
}

func (s *stage) gatedTarget() target {
	t := s.openTarget()
	t.tool = "gated__echo"
	return t
}

// close ends the processes and drops the database.
func (s *stage) close() {
	for _, p := range []*process{s.serve, s.skill} {
		if p != nil {
			p.stop()
		}
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.dropDatabase != nil {
		s.dropDatabase()
	}
}
