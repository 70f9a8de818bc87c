package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Examination asks [Env.Examine] how a server with these settings reaches a skill.
type Examination struct {
	Skill     string
	DB        *postgres.DB
	Box       *secret.Box
	PublicURL string
	DataDir   string
	Outward   Outward
	Stdio     tool.StdioPolicy
	// Step is called after each step; err says why it failed.
	Step func(name, detail string, took time.Duration, err error)
}

// skillCheck are the settings of doctor that are about one skill.
type skillCheck struct {
	name      string
	addr      string
	publicURL string
	stdio     Stdio
	outward   Outward
	edge      Edge
	bootstrap Bootstrap
	providers Providers
}

func (s *skillCheck) bindFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.name, "skill", "", "connect to this skill's server step by step, and report the step that fails")
	flags.StringVar(&s.addr, "addr", "127.0.0.1:8080", "address that serve listens on")
	flags.StringVar(&s.publicURL, "public-url", "", "where people and agents reach the server (default http:// and the address)")
	s.stdio.Bind(cmd)
	s.outward.Bind(cmd)
	s.edge.Bind(cmd)
	s.bootstrap.Bind(cmd)
	s.providers.Bind(cmd)
	notSettings(cmd, "skill")
	_ = cmd.RegisterFlagCompletionFunc("skill", cobra.NoFileCompletions) // it fails for a flag that is not defined
}

// checkOutward checks the settings of outgoing connections.
func checkOutward(o *Outward) []finding {
	if len(o.TrustedHosts) == 0 && o.WorkloadTokenFile == "" {
		return nil
	}
	f := finding{Status: ok, Check: "way out", Detail: fmt.Sprintf("%d trusted hosts", len(o.TrustedHosts))}
	if o.WorkloadTokenFile != "" {
		f.Detail += ", own identity token in " + o.WorkloadTokenFile
	}
	if err := o.Check(); err != nil {
		f.Status, f.Detail, f.Advice = fail, err.Error(), "serve does not start with it"
	}
	return []finding{f}
}

// examineSkill connects to a skill's server step by step, as a server with these settings would. No server has to run.
func (e *Env) examineSkill(ctx context.Context, d database, s *skillCheck) []finding {
	broken := func(err error, advice string) []finding {
		return []finding{{fail, "skill " + s.name, err.Error(), advice}}
	}
	key := d.secretConfig(e)
	config := d.postgresConfig(e)
	if config.DatabaseURL == "" && !fileExists(d.dataDir+"/postgres") || key.Keyset == "" && !fileExists(key.File) {
		return []finding{{fail, "skill " + s.name, "there are no skills yet: serve has not run with these settings", "give the settings that serve has"}}
	}
	policy, err := s.stdio.Policy(e, d.dataDir, d.secretConfig(e).File, s.outward.WorkloadTokenFile)
	if err != nil {
		return broken(err, "serve does not start with it")
	}
	box, err := secret.OpenContext(ctx, key)
	if err != nil {
		return broken(err, "restore the key: the skill's secrets cannot be read")
	}
	config.MaxConns = skillConns
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return broken(err, "see PostgreSQL above")
	}
	var findings []finding
	isReported := false
	publicURL := cmp.Or(s.publicURL, "http://"+s.addr)
	err = e.Examine(ctx, Examination{
		Skill: s.name, DB: db, Box: box, PublicURL: publicURL, DataDir: d.dataDir, Outward: s.outward, Stdio: policy,
		Step: func(name, detail string, took time.Duration, err error) {
			f := finding{Status: ok, Check: name, Detail: fmt.Sprintf("%s (%s)", detail, took.Round(time.Millisecond))}
			if err != nil {
				isReported = true
				f.Status, f.Detail, f.Advice = fail, err.Error(), stepAdvice(name, s.name)
			}
			findings = append(findings, f)
		},
	})
	if err != nil && !isReported {
		findings = append(findings, finding{fail, "skill " + s.name, err.Error(), "look at holdpoint skill list, and at the schema above"})
	}
	if err := closeDatabase(ctx, db); err != nil {
		findings = append(findings, finding{warn, "PostgreSQL", err.Error(), "look at the log in the data directory"})
	}
	return findings
}

// skillConns is the number of database connections for one skill: a token is fetched under a row's lock, and stored by
// another connection.
const skillConns = 5

// stepAdvice is the most common remedy for a step that failed.
func stepAdvice(step, skill string) string {
	switch step {
	case "challenge", "connect":
		return "check the skill's url, and that this machine reaches it"
	case "resource metadata":
		return "the skill's server has to say who issues its tokens (RFC 9728); a host in your own network goes into --" + trustedHosts
	case "authorization server":
		return "set oauth.issuer, or choose one when connecting; a host in your own network goes into --" + trustedHosts
	case "client registration":
		return "register a client with the authorization server, and give the skill its oauth.client_id"
	case "token":
		return "holdpoint connections connect " + skill + ", where a person has to; else check the skill's oauth"
	}
	return ""
}

// checkPrograms lists the skills that may not run their programs with these settings.
func (e *Env) checkPrograms(ctx context.Context, db *postgres.DB, d database, s *skillCheck) []finding {
	policy, err := s.stdio.Policy(e, d.dataDir, d.secretConfig(e).File, s.outward.WorkloadTokenFile)
	if err != nil {
		return []finding{{fail, "programs", err.Error(), "serve does not start with it"}}
	}
	if e.Refused == nil {
		return nil
	}
	var made bool
	if err := db.Pool().QueryRow(ctx, `SELECT to_regclass('skills') IS NOT NULL`).Scan(&made); err == nil && !made {
		return nil
	}
	refused, err := e.Refused(ctx, db, policy)
	if err != nil {
		return []finding{{warn, "programs", err.Error(), "look at the schema above"}}
	}
	var findings []finding
	for _, skill := range refused {
		f := finding{Status: warn, Check: "skill " + skill.Name, Detail: "its program is not run: " + skill.Reason}
		if len(skill.Flags) > 0 {
			f.Advice = "start serve with " + strings.Join(skill.Flags, " ")
		}
		findings = append(findings, f)
	}
	return findings
}
