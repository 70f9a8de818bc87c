package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/bucket"
	"github.com/holdpoint/holdpoint/internal/buildtag"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/runtime"
)

func newDoctorCmd(e *Env) *cobra.Command {
	var d database
	var skill skillCheck
	var filesURL string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check that everything serve needs is there",
		Long: `Check that everything serve needs is there, with the settings that serve would have: the data
directory, the database and its schema, the encryption key, the clocks. With a token, also check a
running server and its skills. It also checks the address, the TLS certificate, the trusted proxies, that
someone can sign in, that someone can approve each agent's calls, and whether the database was restored.

With --skill, connect to that skill's server step by step: the challenge, the metadata, the
authorization server, the client, the token, then the connection and the tools. This needs no running
Holdpoint, and contacts none.

Each line is ok, warn or fail. A line that is not ok has advice. The exit code is 1 when a check fails.`,
		Example: "  holdpoint doctor\n  HOLDPOINT_TOKEN=… holdpoint doctor --url https://gate.example.com\n  holdpoint doctor --skill ledger",
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := e.examineAll(cmd.Context(), d, filesURL, &skill)
			if err := e.printFindings(findings); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == fail {
					return &ExitError{Code: ExitFailure}
				}
			}
			return nil
		},
	}
	d.bindFlags(cmd)
	skill.bindFlags(cmd)
	BindFilesURL(cmd, &filesURL)
	return ServerSettings(cmd)
}

const (
	ok   = "ok"
	warn = "warn"
	fail = "fail"
)

// finding is one line of the report.
type finding struct {
	Status string `json:"status"`
	Check  string `json:"check"`
	Detail string `json:"detail"`
	Advice string `json:"advice"`
}

func (e *Env) printFindings(findings []finding) error {
	if e.json {
		return e.printEncoded(map[string]any{"items": findings})
	}
	width := 16
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	for _, f := range findings {
		line := fmt.Sprintf("%-5s %-*s %s\n", f.Status, width, escapeCell(f.Check), oneLine(f.Detail))
		if f.Advice != "" {
			line += fmt.Sprintf("%-5s %-*s → %s\n", "", width, "", oneLine(f.Advice))
		}
		if err := write(e.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// oneLine puts a text on one line.
func oneLine(text string) string { return escapeCell(strings.Join(strings.Fields(text), " ")) }

func (e *Env) examineAll(ctx context.Context, d database, filesURL string, skill *skillCheck) []finding {
	needsDir := NeedsDataDir(e.Getenv("DATABASE_URL"), d.nameKey(e), filesURL)
	err := d.fillDefaults(e)
	if err == nil && d.dataDir == "" && needsDir {
		_, err = postgres.DefaultDataDir(e.Getenv)
	}
	if err != nil {
		return []finding{{fail, "settings", err.Error(), "give a --data-dir"}}
	}
	findings := []finding{{ok, "settings", "data directory " + cmp.Or(d.dataDir, "none") + ", server " + e.url, ""}, checkDataDir(d.dataDir, needsDir)}
	findings = append(findings, e.checkEdge(skill)...)
	outward := checkOutward(&skill.outward) // it also normalizes the trusted hosts
	findings = append(findings, e.checkDatabase(ctx, d, skill)...)
	findings = append(findings, outward...)
	findings = append(findings, checkFileStorage(filesURL)...)
	if skill.name != "" {
		return append(findings, e.examineSkill(ctx, d, skill)...)
	}
	findings = append(findings, checkAddress(ctx, skill)...)
	return append(findings, e.checkServer(ctx)...)
}

// filesURLFlag names the flag that says where attached files are stored.
const filesURLFlag = "files-url"

// BindFilesURL adds the flag to a command of the server.
func BindFilesURL(cmd *cobra.Command, location *string) {
	cmd.Flags().StringVar(location, filesURLFlag, "", "where attached files are stored: file://, s3://, or in a build with the tag cloud gs:// or azblob:// (default files in the data directory)")
}

// checkFileStorage says whether this build can open the store of files. It does not connect.
func checkFileStorage(location string) []finding {
	if location == "" {
		return nil
	}
	if err := bucket.Check(location); err != nil {
		advice := "serve does not start with it"
		if _, missing := errors.AsType[*buildtag.MissingError](err); missing {
			advice = buildtag.Advice
		}
		return []finding{{fail, "file storage", "--" + filesURLFlag + ": " + err.Error(), advice}}
	}
	return []finding{{ok, "file storage", bucket.Name(location), ""}}
}

// NeedsDataDir reports whether serve cannot do without a data directory. Programs of skills need one in any case.
func NeedsDataDir(databaseURL, key, filesURL string) bool {
	return databaseURL == "" || key == "" || filesURL == ""
}

func checkDataDir(dir string, needed bool) finding {
	const check = "data directory"
	if !needed {
		return finding{ok, check, "only the programs of skills need one: database, key and files are elsewhere", ""}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{warn, check, dir + " is not there yet", "serve makes it"}
	case err != nil:
		return finding{fail, check, err.Error(), "let this user reach it, or name another with --data-dir"}
	case !info.IsDir():
		return finding{fail, check, dir + " is a file", "name a directory with --data-dir"}
	}
	probe, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return finding{fail, check, err.Error(), "let this user write to it, or name another with --data-dir"}
	}
	_ = probe.Close()           // nothing was written
	_ = os.Remove(probe.Name()) // an empty file may stay behind
	return finding{ok, check, dir, ""}
}

func (e *Env) checkDatabase(ctx context.Context, d database, skill *skillCheck) []finding {
	config := d.postgresConfig(e)
	if config.DatabaseURL == "" && !fileExists(filepath.Join(d.dataDir, "postgres")) {
		return []finding{tryCluster(ctx, config), firstFinding(e.checkKey(ctx, d, nil))}
	}
	db, err := postgres.Open(ctx, config)
	if err != nil {
		advice := "the text above says what is missing"
		switch {
		case errors.Is(err, postgres.ErrSharedSessions):
			advice = "set " + postgres.SessionURLVariable + " to the address of PostgreSQL itself, and keep DATABASE_URL"
		case config.DatabaseURL != "":
			advice = "check DATABASE_URL, and that the server runs and lets this machine in"
		}
		return []finding{{fail, "PostgreSQL", err.Error(), advice}, firstFinding(e.checkKey(ctx, d, nil))}
	}
	schema := checkSchema(ctx, db)
	key, box := e.checkKey(ctx, d, db)
	findings := []finding{inspectDatabase(ctx, db), e.checkClock(ctx, db), schema, key}
	findings = append(findings, checkStandby(ctx, config, e.Getenv(postgres.ReadURLVariable))...)
	if schema.Status == ok {
		findings = append(findings, checkMark(ctx, db)...)
		people := e.checkPeople(ctx, db, skill)
		findings = append(findings, people...)
		if key.Status == ok && len(people) == 0 {
			findings = append(findings, e.checkReviewers(ctx, db, box, skill)...)
		}
	}
	if schema.Status == ok && key.Status == ok {
		findings = append(findings, checkReceivers(ctx, db, box, &skill.outward)...)
	}
	findings = append(findings, e.checkPrograms(ctx, db, d, skill)...)
	if err := closeDatabase(ctx, db); err != nil {
		findings = append(findings, finding{warn, "PostgreSQL", err.Error(), "look at the log in the data directory"})
	}
	return findings
}

// checkStandby says whether serve would read from the standby. It opens the database once more, as serve does.
func checkStandby(ctx context.Context, config postgres.Config, readURL string) []finding {
	const check = "standby"
	if readURL == "" {
		return nil
	}
	config.ReadURL = readURL
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return []finding{{fail, check, err.Error(), "serve does not start with it; name a standby of DATABASE_URL's server, or leave it out"}}
	}
	trouble := db.StandbyTrouble()
	if err := errors.Join(trouble, closeDatabase(ctx, db)); err != nil {
		return []finding{{warn, check, err.Error(), "serve reads history from the primary until the standby of " + postgres.ReadURLVariable + " follows it"}}
	}
	return []finding{{ok, check, "of " + postgres.ReadURLVariable + ", follows the primary", ""}}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tryCluster starts an embedded cluster for a moment, in a folder beside the data directory, so that none stays behind.
func tryCluster(ctx context.Context, config postgres.Config) finding {
	broken := func(err error) finding {
		return finding{fail, "PostgreSQL", err.Error(), "the text above says what is missing"}
	}
	beside := filepath.Dir(config.DataDir)
	for !fileExists(beside) && beside != filepath.Dir(beside) {
		beside = filepath.Dir(beside)
	}
	dir, err := os.MkdirTemp(beside, ".holdpoint-doctor-")
	if err != nil {
		return broken(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()     // the name of a leftover explains it
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // G302: the account that PostgreSQL drops to passes through
		return broken(err)
	}
	config.DataDir = dir
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return broken(err)
	}
	f := inspectDatabase(ctx, db)
	if err := closeDatabase(ctx, db); err != nil {
		return broken(err)
	}
	f.Detail += ", tried out; serve makes the one in the data directory"
	return f
}

func inspectDatabase(ctx context.Context, db *postgres.DB) finding {
	var version, name string
	err := db.Pool().QueryRow(ctx, `SELECT current_setting('server_version'), current_database()`).Scan(&version, &name)
	if err != nil {
		return finding{fail, "PostgreSQL", err.Error(), "look at the database's log"}
	}
	kind := "of DATABASE_URL"
	if db.Embedded() {
		kind = "embedded"
	}
	return finding{ok, "PostgreSQL", fmt.Sprintf("%s, %s, database %s", version, kind, name), ""}
}

// clockTolerance is the tolerated difference of clocks. Deadlines use the database's clock; times that people read, and
// tokens of other issuers, use this machine's.
const clockTolerance = 5 * time.Second

func (e *Env) checkClock(ctx context.Context, db *postgres.DB) finding {
	var there time.Time
	before := e.Now()
	if err := db.Pool().QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return finding{fail, "clocks", err.Error(), "look at the database's log"}
	}
	here := before.Add(e.Now().Sub(before) / 2)
	apart := there.Sub(here).Round(time.Millisecond)
	f := finding{Status: ok, Check: "clocks", Detail: fmt.Sprintf("the database's differs by %s", apart)}
	if apart.Abs() > clockTolerance {
		f.Status, f.Advice = warn, "let both machines set their clocks by NTP; deadlines go by the database's"
	}
	return f
}

// checkSchema compares the applied migrations with those of this program, as serve does.
func checkSchema(ctx context.Context, db *postgres.DB) finding {
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return finding{fail, "schema", err.Error(), ""}
	}
	pending, err := postgres.Pending(ctx, db, migrations.FS)
	f := finding{Status: ok, Check: "schema", Detail: fmt.Sprintf("%d of %d migrations applied", len(files)-pending, len(files))}
	switch {
	case errors.Is(err, postgres.ErrSchemaNewer):
		f.Status, f.Detail, f.Advice = fail, err.Error(), "use that one"
	case err != nil:
		f.Status, f.Detail, f.Advice = fail, err.Error(), "serve and migrate refuse this database: use the program that migrated it, or restore a backup"
	case pending > 0:
		f.Status, f.Advice = warn, "serve applies them when it starts, or run holdpoint migrate"
	}
	return f
}

// checkMark says what a start does to the calls of a restored database.
func checkMark(ctx context.Context, db *postgres.DB) []finding {
	const check = "restored"
	restored, err := runtime.ExamineMark(ctx, db)
	switch {
	case err != nil:
		return []finding{{fail, check, err.Error(), "look at the database's log"}}
	case restored == nil:
		return nil
	}
	return []finding{{
		warn, check, fmt.Sprintf("the database was restored (%s): %d calls that may have been sent since the backup become unknown at the next start", restored.Reason, restored.Calls),
		"stop all servers of the database that this one replaces, then start one; see docs/backup.md",
	}}
}

// checkKey opens the key, and with a database decrypts its check value.
func (e *Env) checkKey(ctx context.Context, d database, db *postgres.DB) (finding, *secret.Box) {
	if err := CheckKeysetKMS(d.kmsURI); err != nil {
		return finding{fail, "encryption key", err.Error(), buildtag.Advice}, nil
	}
	config := d.secretConfig(e)
	if config.Keyset == "" {
		if _, err := os.Stat(config.File); errors.Is(err, fs.ErrNotExist) {
			if db != nil {
				if err := secret.MayMakeKey(ctx, db.Pool(), config); err != nil {
					return finding{fail, "encryption key", err.Error(), "restore the key: without it the stored secrets cannot be read"}, nil
				}
			}
			return finding{
				warn, "encryption key", filepath.Clean(config.File) + " is not there yet",
				"serve makes one; with several servers give all of them the same key",
			}, nil
		}
	}
	box, err := secret.OpenContext(ctx, config)
	if err != nil {
		advice := "restore the key: without it the stored secrets cannot be read"
		if config.KMS.URI != "" {
			advice = "check --" + KeysetKMS + ", and that this machine reaches the KMS and may use the key; else " + advice
		}
		return finding{fail, "encryption key", err.Error(), advice}, nil
	}
	f := finding{ok, "encryption key", "of " + box.Source(), ""}
	if db == nil {
		return f, box
	}
	stored, err := secret.VerifyKey(ctx, db.Pool(), box)
	switch {
	case err != nil:
		f.Status, f.Detail, f.Advice = fail, err.Error(), "restore the key: serve refuses to start with another one"
	case stored:
		f.Detail += ", that of the database"
	}
	return f, box
}

func firstFinding(f finding, _ *secret.Box) finding { return f }

// checkReceivers lists the webhooks and callbacks to which serve, with these settings, would send nothing.
func checkReceivers(ctx context.Context, db *postgres.DB, box *secret.Box, outward *Outward) []finding {
	count, refused, err := runtime.ExamineReceivers(ctx, db, box, outward.TrustedHosts)
	if err != nil {
		return []finding{{fail, "receivers", err.Error(), "look at the database's log"}}
	}
	if count == 0 {
		return nil
	}
	findings := []finding{{ok, "receivers", fmt.Sprintf("messages may be sent to %d of %d webhooks and callbacks", count-len(refused), count), ""}}
	for _, text := range refused {
		findings = append(findings, finding{
			warn, "receivers", text, "nothing is sent there: give serve its host in --" + trustedHosts + ", or make it anew with an https URL at a public address",
		})
	}
	return findings
}

// checkServer checks a running server and its skills.
func (e *Env) checkServer(ctx context.Context) []finding {
	if e.token == "" {
		return []finding{{ok, "server", "not asked: no token is set", ""}}
	}
	api, err := e.newClient(e.token)
	var reply client.Reply[client.List[client.Skill]]
	if err == nil {
		reply, err = api.ListSkills(ctx, client.ListSkillsQuery{Limit: new(int64(200))})
	}
	if err != nil {
		advice := "start it with holdpoint serve, or set HOLDPOINT_URL"
		if _, refused := errors.AsType[*client.Problem](err); refused {
			advice = "use the token of an operator"
		}
		return []finding{{fail, "server", err.Error(), advice}}
	}
	skills, err := reply.Value()
	if err != nil {
		return []finding{{fail, "server", err.Error(), "is it a Holdpoint that answers at " + e.url + "?"}}
	}
	names := make([]string, len(skills.Items))
	for i, skill := range skills.Items {
		names[i] = skill.Name
	}
	findings := []finding{{ok, "server", fmt.Sprintf("%s answers and has %d skills", e.url, len(skills.Items)), ""}}
	return slices.Concat(findings, checkSkills(ctx, api, names), checkRoles(ctx, api))
}

// checkSkills lets the server connect to skills, several at a time.
func checkSkills(ctx context.Context, api *client.Client, names []string) []finding {
	findings := make([]finding, len(names))
	slots := make(chan struct{}, 8)
	var probing sync.WaitGroup
	for i, name := range names {
		probing.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			findings[i] = checkSkill(ctx, api, name)
		})
	}
	probing.Wait()
	return findings
}

// checkRoles lists the people who have a role that does not count, because roles are separate on the server.
func checkRoles(ctx context.Context, api *client.Client) []finding {
	server, err := client.Value(api.GetServer(ctx))
	if err != nil {
		return []finding{{warn, "roles", err.Error(), "use the token of an operator"}}
	}
	if !server.SeparateRoles {
		return nil
	}
	var findings []finding
	for _, one := range server.BothRoles {
		findings = append(findings, finding{
			warn, "roles", fmt.Sprintf("%s (%s) is operator and reviewer: the role %s does not count", one.Person.Name, one.Person.ID, one.Lost),
			"take one of the roles away, with holdpoint people grant or at the identity provider",
		})
	}
	if len(findings) == 0 {
		return []finding{{ok, "roles", "nobody is operator and reviewer", ""}}
	}
	return findings
}

func checkSkill(ctx context.Context, api *client.Client, name string) finding {
	check := "skill " + name
	reply, err := api.ProbeSkill(ctx, name)
	if err != nil {
		return finding{warn, check, err.Error(), "use the token of an operator"}
	}
	found, err := reply.Value()
	if err != nil {
		return finding{fail, check, err.Error(), ""}
	}
	detail := ""
	for _, step := range found.Steps {
		if step.Error != nil {
			return finding{fail, check, step.Name + ": " + *step.Error, "see holdpoint skill probe " + name}
		}
		detail = step.Name + ": " + step.Detail
	}
	return finding{ok, check, detail, ""}
}
