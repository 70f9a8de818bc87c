package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// guardOptions are the flags of the guard commands.
type guardOptions struct {
	scope, user, root                           string
	agent, skill, keyFile, program, ca, proxy   string
	projects                                    []string
	noRules, policy, dryRun, apply, untilBroken bool
	local                                       bool
	dataDir                                     string
	wait, interval, timeout                     time.Duration

	isGiven func(flag string) bool
}

const (
	scopeMachine = "machine"
	scopeUser    = "user"
)

func newGuardCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := newGroup("guard", "Guard the built-in tools of a coding agent on this machine",
		newGuardInstallCmd(e), newGuardShowCmd(e), newGuardRemoveCmd(e), newGuardStatusCmd(e), newGuardTestCmd(e), newGuardRulesCmd(e),
		newGuardImportCmd(e), newGuardWatchCmd(e), newGuardListCmd(e), newGuardForgetCmd(e))
	cmd.Use = "guard HOST"
	cmd.Long = `Guard the built-in tools of a coding agent: its shell, edits, reads and requests wait for Holdpoint.
HOST is claude-code, codex, gemini, copilot, opencode or cursor. "holdpoint guard HOST" is "holdpoint
guard install HOST".

The first lines of each command say what the guard of that host does not hold, and what does. See
docs/guard.md.`
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.ValidArgs = tool.Hosts()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := guard.ParseHost(args[0]); err != nil {
			return misusef("%w, or a command: see holdpoint guard --help", err)
		}
		return e.installGuard(cmd.Context(), args[0], o)
	}
	bindInstall(cmd, &o)
	return cmd
}

// bindScope adds the flags that say whose settings a command is about.
func bindScope(cmd *cobra.Command, o *guardOptions) {
	cmd.Flags().StringVar(&o.scope, "scope", "", `whose settings: "machine", which users cannot change, or "user" (default machine as root, else user; to check, both)`)
	cmd.Flags().StringVar(&o.user, "user", "", "the user who runs the host, with the scope machine (default the one who called sudo)")
	cmd.Flags().StringVar(&o.root, "root", "", "folder in which the machine's settings are, instead of /")
	_ = cmd.Flags().MarkHidden("root") // for tests
}

func bindInstall(cmd *cobra.Command, o *guardOptions) {
	bindScope(cmd, o)
	flags := cmd.Flags()
	o.isGiven = flags.Changed
	flags.StringVar(&o.agent, "agent", "", "name of the agent; without it, the one of the installed guard")
	flags.StringVar(&o.skill, "skill", "", "name of the skill of the host's built-in tools (default HOST)")
	flags.StringVar(&o.keyFile, "key-file", "", `file with a key of the agent, which is copied; "-" is the standard input (default a new key, with an operator's --token)`)
	flags.StringVar(&o.program, "program", "", "path of the holdpoint that the host runs (default this one)")
	flags.DurationVar(&o.wait, "wait", guard.DefaultWait, "how long the hook waits for a decision before it refuses the call; a repeat continues to wait")
	flags.StringVar(&o.proxy, "proxy", "", "URL of a proxy to the server (default none; variables do not count)")
	flags.StringVar(&o.ca, "ca-file", "", "file with the certificates that the server's one is verified with (default those of the system)")
	flags.StringArrayVar(&o.projects, "project", nil, "folder in which the starter rules let the host read; may be given more than once (default this folder)")
	flags.BoolVar(&o.noRules, "no-rules", false, "create no starter rules on the server, apart from the one that status needs")
	flags.BoolVar(&o.policy, "policy", false, "gemini, scope machine: also take away Gemini's own shell, write and network tools")
	flags.BoolVar(&o.local, "local", false, "start a server on this machine for yourself, unless it runs, and use it; see docs/guard.md for who could approve what")
	flags.StringVar(&o.dataDir, "data-dir", "", "with --local: directory of the server's database and keys (default that of holdpoint serve)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the changes without making them")
}

func newGuardInstallCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "install HOST", Short: "Put Holdpoint's hook into the host's settings",
		Long: `Put Holdpoint's hook into the settings of a coding agent. As root these are the settings of the machine,
which users cannot change, else those of the user. Everything else in the file stays. A file that the
host would refuse, or ignore, is not written. Installing again changes nothing: flags that are not given
stay as they were.

With the token of an operator, the agent, the skill, a key and the starter rules are created on the
server where they are missing. Without it, give a key of the agent with --key-file. The token is not
stored. The key is stored in a file that only the user who runs the host can read.`,
		Example: `  HOLDPOINT_URL=https://holdpoint.example.com HOLDPOINT_TOKEN=… holdpoint guard claude-code --agent laptop --project /home/me/src
  sudo holdpoint guard install codex --agent laptop --key-file - --url https://holdpoint.example.com < key`,
		ValidArgs: tool.Hosts(),
		RunE:      func(cmd *cobra.Command, args []string) error { return e.installGuard(cmd.Context(), args[0], o) },
	}
	bindInstall(cmd, &o)
	return cmd
}

// guarded is a host on a machine.
type guarded struct {
	host    guard.Host
	managed bool
	machine *guard.Machine
	owner   int // the user id of the user who runs the host; -1: the one who runs this command
}

// findGuarded finds out whose settings a command is about.
func (e *Env) findGuarded(name string, o *guardOptions) (*guarded, error) {
	host, err := guard.ParseHost(name)
	if err != nil {
		return nil, &usageError{err}
	}
	work, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the present folder: %w", err)
	}
	g := &guarded{host: host, owner: -1, machine: &guard.Machine{Root: o.root, Home: e.Getenv("HOME"), Work: work, Getenv: e.Getenv}}
	switch o.scope {
	case "":
		g.managed = os.Geteuid() == 0
	case scopeMachine:
		g.managed = true
	case scopeUser:
	default:
		return nil, misusef("--scope %q: must be machine or user", o.scope)
	}
	if !g.managed && o.user != "" {
		return nil, misusef("--user: must be omitted with --scope user")
	}
	name = o.user
	if name == "" && g.managed {
		name = e.Getenv("SUDO_USER")
	}
	if name != "" && g.managed {
		found, err := user.Lookup(name)
		if err != nil {
			return nil, misusef("--user %q: must be a user of this machine", name)
		}
		if g.owner, err = strconv.Atoi(found.Uid); err != nil {
			return nil, fmt.Errorf("--user %q: user id %s: must be a number", name, found.Uid)
		}
		g.machine.Home = found.HomeDir
	}
	return g, g.machine.Validate(g.managed)
}

// noteLimits says first what does not hold.
func (e *Env) noteLimits(g *guarded, isLocal bool) {
	if isLocal && !g.managed {
		e.notef("%s", localWarning)
	}
	for _, limit := range guard.Limits(g.host, g.managed) {
		e.notef("%s", limit)
	}
	if g.managed && g.owner <= 0 {
		e.notef("The host runs as root, who can change the settings of the machine. Name another user with --user.")
	}
}

func (e *Env) installGuard(ctx context.Context, name string, o guardOptions) error {
	found, err := e.findGuarded(name, &o)
	if err != nil {
		return err
	}
	e.noteLimits(found, o.local)
	earlier, err := guard.ReadRecord(found.machine, found.host, found.managed)
	if err != nil {
		return err
	}
	if err := e.useLocalServer(ctx, found, &o); err != nil {
		return err
	}
	g, err := e.planGuard(found, &o, earlier)
	if err != nil {
		return err
	}
	key, err := e.readGuardKey(g, &o)
	if err != nil {
		return err
	}
	projects, err := findProjects(found.machine, o.projects)
	if err != nil {
		return err
	}
	rules, err := guard.StarterRules(g.Host, g.Agent, g.Skill, projects)
	if err != nil {
		return &usageError{err}
	}
	if !o.noRules {
		g.Rules = guard.RulesVersion
	}
	edits, err := g.Install(ctx, found.machine)
	if err != nil {
		return err
	}
	// A key that is there counts only for its own agent and server: another server must not get it.
	hasKey := key != "" || earlier != nil && earlier.Agent == g.Agent && earlier.URL == g.URL && fileExists(g.KeyFile)
	switch {
	case e.token != "":
		if key, err = e.setUpServer(ctx, g, rules, &o, key, !hasKey); err != nil {
			return err
		}
	case !hasKey:
		return misusef("--key-file: must name a file with a key of agent %s, or set HOLDPOINT_TOKEN to the token of an operator, who creates one", g.Agent)
	default:
		e.notef("Without an operator's token, nothing was changed on the server. An operator applies the rules with: holdpoint guard rules %s --agent %s --skill %s | holdpoint apply -f -", g.Host, g.Agent, g.Skill)
	}
	if key != "" || o.dryRun && !hasKey {
		edit, err := g.EditKey(key)
		if err != nil {
			return err
		}
		edits = append([]*guard.Edit{edit}, edits...)
	}
	if err := e.writeEdits(edits, o.dryRun); err != nil || o.dryRun {
		return err
	}
	return e.registerGuard(ctx, &installedGuard{found, g}, edits)
}

// planGuard fills the guard from flags, and from the guard that is installed.
func (e *Env) planGuard(found *guarded, o *guardOptions, earlier *guard.Guard) (*guard.Guard, error) {
	g := &guard.Guard{
		Host: found.host, Managed: found.managed, URL: e.url, Agent: o.agent, Skill: o.skill, Wait: o.wait.String(), Proxy: o.proxy, CAFile: o.ca,
		Policy: o.policy, Local: o.local, Program: o.program, Owner: found.owner, KeyFile: filepath.Join(found.machine.Folder(found.managed), string(found.host)+".key"),
	}
	if earlier != nil {
		if err := keepSettings(g, o, earlier); err != nil {
			return nil, err
		}
	}
	if g.Agent == "" {
		return nil, misusef("--agent: must name the agent")
	}
	if g.ID = uuid.NewString(); earlier != nil && earlier.Agent == g.Agent && earlier.URL == g.URL {
		g.ID = cmp.Or(earlier.ID, g.ID)
	}
	if g.Skill == "" {
		g.Skill = string(g.Host)
	}
	if o.wait < minHookWait || o.wait > 12*time.Hour {
		return nil, misusef("--wait %s: must be between 5s and 12h", o.wait)
	}
	if g.Policy && (g.Host != guard.Gemini || !g.Managed) {
		return nil, misusef("--policy: must be used with gemini and --scope machine")
	}
	address, err := url.Parse(g.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, misusef("--url %q: must be a URL such as https://holdpoint.example.com", g.URL)
	}
	if address.Scheme == "http" && !outbound.IsLoopbackHost(address.Hostname()) {
		return nil, misusef("--url %q: must begin with https, unless the server is on this machine: else the network decides about calls", g.URL)
	}
	if g.CAFile != "" {
		if g.CAFile, err = filepath.Abs(g.CAFile); err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
	}
	if g.Program == "" {
		if g.Program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
	}
	if err := g.CheckProgram(); err != nil {
		return nil, misusef("--program: %w", err)
	}
	return g, nil
}

// keepSettings fills the settings whose flags are not given from the guard that is installed.
func keepSettings(g *guard.Guard, o *guardOptions, earlier *guard.Guard) error {
	g.Agent = cmp.Or(g.Agent, earlier.Agent)
	g.Local = g.Local || earlier.Local && g.URL == earlier.URL
	if g.Agent == earlier.Agent {
		g.Skill = cmp.Or(g.Skill, earlier.Skill)
	}
	if !o.isGiven("policy") {
		g.Policy = earlier.Policy
	}
	if !o.isGiven("proxy") {
		g.Proxy = earlier.Proxy
	}
	if !o.isGiven("ca-file") {
		g.CAFile = earlier.CAFile
	}
	if !o.isGiven("program") {
		g.Program = earlier.Program
	}
	if !o.isGiven("wait") {
		wait, err := time.ParseDuration(earlier.Wait)
		if err != nil {
			return fmt.Errorf("record of the guard of %s: wait: %w", g.Host, err)
		}
		g.Wait, o.wait = earlier.Wait, wait
	}
	return nil
}

// readGuardKey reads the key that --key-file names; "" without it.
func (e *Env) readGuardKey(g *guard.Guard, o *guardOptions) (string, error) {
	if o.keyFile == "" {
		return "", nil
	}
	text, err := e.readFile(o.keyFile)
	if err != nil {
		return "", fmt.Errorf("--key-file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", misusef("--key-file %s: must hold one key of agent %s", o.keyFile, g.Agent)
	}
	return key, nil
}

// findProjects returns the folders of the starter rules. The root and a home folder are no projects.
func findProjects(m *guard.Machine, given []string) ([]string, error) {
	if len(given) == 0 {
		if m.Work == "/" || m.Work == m.Home {
			return nil, nil
		}
		given = []string{m.Work}
	}
	var projects []string
	for _, one := range given {
		folder, err := filepath.Abs(one)
		if err != nil {
			return nil, fmt.Errorf("--project: %w", err)
		}
		if folder == "/" || folder == m.Home {
			return nil, misusef("--project %s: must be a folder below the home folder, which has secrets of its own", one)
		}
		projects = append(projects, folder)
		resolved, err := filepath.EvalSymlinks(folder) // the hook claims paths with all links followed
		switch {
		case err != nil || resolved == folder:
		case resolved == "/" || resolved == m.Home:
			return nil, misusef("--project %s: must not lead to %s", one, resolved)
		default:
			projects = append(projects, resolved)
		}
	}
	return projects, nil
}

// setUpServer creates the missing skill, agent, key and rules on the server, and returns the agent's key: the given one, or a new one. Rules that exist stay as they are.
func (e *Env) setUpServer(ctx context.Context, g *guard.Guard, rules string, o *guardOptions, key string, needsKey bool) (string, error) {
	api, err := e.newClient(e.token)
	if err != nil {
		return "", err
	}
	create := func(what, get, post string, body any) error {
		_, err := api.Send(ctx, http.MethodGet, get, nil)
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != http.StatusNotFound {
			return err
		}
		if o.dryRun {
			e.notef("Would create %s.", what)
			return nil
		}
		if _, err := api.Send(ctx, http.MethodPost, post, body); err != nil {
			return fmt.Errorf("create %s: %w", what, err)
		}
		e.notef("Created %s.", what)
		return nil
	}
	const base = "/api/v1/"
	if err := e.checkGuardSkill(ctx, api, g); err != nil {
		return "", err
	}
	if err := create("skill "+g.Skill, base+"skills/"+client.Segment(g.Skill), base+"skills",
		map[string]any{"name": g.Skill, "transport": "gate", "host": g.Host}); err != nil {
		return "", err
	}
	if err := create("agent "+g.Agent, base+"agents/"+client.Segment(g.Agent), base+"agents", map[string]any{"name": g.Agent}); err != nil {
		return "", err
	}
	if err := e.assignGuard(ctx, api, g, o.dryRun); err != nil {
		return "", err
	}
	if err := e.applyMissingRules(ctx, api, rules, o); err != nil || !needsKey || o.dryRun {
		return key, err
	}
	reply, err := api.CreateKey(ctx, g.Agent)
	made, err := client.Value(reply, err)
	if err != nil {
		return "", fmt.Errorf("create a key of agent %s: %w", g.Agent, err)
	}
	e.notef("Created a key of agent %s.", g.Agent)
	return made.Key, nil
}

// checkGuardSkill refuses a skill that exists and is not about the host's built-in tools, and says if its calls need no approval.
func (e *Env) checkGuardSkill(ctx context.Context, api *client.Client, g *guard.Guard) error {
	reply, err := api.GetSkill(ctx, g.Skill)
	skill, err := client.Value(reply, err)
	if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
		return nil
	}
	switch {
	case err != nil:
		return err
	case skill.Transport != "gate":
		return misusef("--skill %s: must be a skill with transport gate, and has %s", g.Skill, skill.Transport)
	case value(skill.Host) != string(g.Host):
		return misusef("--skill %s: must be a skill of host %s, and has %q: name another one", g.Skill, g.Host, value(skill.Host))
	case skill.AutoApprove:
		e.notef("Skill %s has auto_approve: calls that no rule parks run without a person.", g.Skill)
	}
	return nil
}

func (e *Env) assignGuard(ctx context.Context, api *client.Client, g *guard.Guard, dryRun bool) error {
	reply, err := api.ListAssignments(ctx, client.ListAssignmentsQuery{Agent: g.Agent})
	list, err := client.Value(reply, err)
	if problem, ok := errors.AsType[*client.Problem](err); err != nil && (!ok || problem.Status != http.StatusNotFound) {
		return err
	}
	if slices.ContainsFunc(list.Items, func(a client.Assignment) bool { return a.Agent == g.Agent && a.Skill == g.Skill }) {
		return nil
	}
	if dryRun {
		e.notef("Would assign skill %s to agent %s.", g.Skill, g.Agent)
		return nil
	}
	if _, err := api.Assign(ctx, client.AssignRequest{Agent: g.Agent, Skill: g.Skill}); err != nil {
		return fmt.Errorf("assign skill %s to agent %s: %w", g.Skill, g.Agent, err)
	}
	e.notef("Assigned skill %s to agent %s.", g.Skill, g.Agent)
	return nil
}

// applyMissingRules creates the starter rules that the server does not have.
func (e *Env) applyMissingRules(ctx context.Context, api *client.Client, text string, o *guardOptions) error {
	reply, err := api.ListRules(ctx)
	present, err := client.Value(reply, err)
	if err != nil {
		return err
	}
	declared, err := manifest.ParseRules("starter rules", []byte(text), manifest.Options{Getenv: e.Getenv})
	if err != nil {
		return err
	}
	var spec struct {
		Rules []map[string]any `json:"rules"`
	}
	if err := json.Unmarshal(declared.Spec, &spec); err != nil {
		return fmt.Errorf("read the starter rules: %w", err)
	}
	missing := []map[string]any{}
	for _, r := range spec.Rules {
		name, _ := r["name"].(string)
		if o.noRules && !strings.HasSuffix(name, "-canary") {
			continue
		}
		if slices.ContainsFunc(present.Items, func(p client.Rule) bool { return p.Name == name }) {
			e.notef("Rule %s exists and is not changed: its folders may differ from --project.", name)
			continue
		}
		missing = append(missing, r)
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": map[string]any{"rules": missing}, "dry_run": o.dryRun})
	if err != nil {
		return fmt.Errorf("create the starter rules: %w", err)
	}
	for _, r := range missing {
		verb := "Created"
		if o.dryRun {
			verb = "Would create"
		}
		e.notef("%s rule %v.", verb, r["name"])
	}
	return nil
}

// writeEdits makes the edits, or prints them.
func (e *Env) writeEdits(edits []*guard.Edit, dryRun bool) error {
	var b strings.Builder
	for _, edit := range edits {
		if !edit.Changes() {
			continue
		}
		if dryRun {
			b.WriteString(edit.Diff())
			continue
		}
		if err := edit.Write(); err != nil {
			return err
		}
		verb := "Wrote"
		if edit.New == nil {
			verb = "Removed"
		}
		b.WriteString(verb + " " + edit.Path + "\n")
	}
	if b.Len() == 0 {
		b.WriteString("Nothing to change.\n")
	}
	return write(e.Stdout, Visible(b.String()))
}

func newGuardRemoveCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "remove HOST", Short: "Take Holdpoint's hook out of the host's settings",
		Long: `Take Holdpoint's hook, its key and its record away from this machine. Everything else in the host's
settings stays, and so do agent, skill, keys and rules on the server. With the token of an operator, the
server forgets the guard. Without it, operators are alerted.`,
		Example:   "  holdpoint guard remove claude-code --dry-run",
		ValidArgs: tool.Hosts(),
		RunE:      func(cmd *cobra.Command, args []string) error { return e.removeGuard(cmd.Context(), args[0], &o) },
	}
	bindScope(cmd, &o)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the changes without making them")
	return cmd
}

func (e *Env) removeGuard(ctx context.Context, name string, o *guardOptions) error {
	found, err := e.findGuarded(name, o)
	if err != nil {
		return err
	}
	record, err := guard.ReadRecord(found.machine, found.host, found.managed)
	if err != nil {
		return err
	}
	edits, err := guard.Remove(found.machine, found.host, found.managed)
	if err != nil {
		return err
	}
	isListed := record != nil && record.ID != "" && !o.dryRun
	var reporter *guardReporter
	if isListed { // before the keys are gone
		if reporter, err = e.newGuardReporter(&installedGuard{found, record}); err != nil {
			e.notef("%s", describeError(err))
		}
	}
	if !o.dryRun {
		if _, err := e.runUnit(ctx, found.machine, edits); err != nil {
			return err
		}
	}
	if err := e.writeEdits(edits, o.dryRun); err != nil {
		return err
	}
	if isListed {
		e.unregisterGuard(ctx, record.ID, reporter)
	}
	return nil
}

func newGuardShowCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "show HOST", Short: "Show what is installed, and what it does not hold",
		Example:   "  holdpoint guard show claude-code",
		ValidArgs: tool.Hosts(),
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := e.findGuarded(args[0], &o)
			if err != nil {
				return err
			}
			g, err := e.readGuard(found)
			if err != nil {
				return err
			}
			e.noteLimits(found, g.Local)
			if e.json {
				return e.printEncoded(g)
			}
			return e.printFields("Host", string(g.Host), "File", found.machine.File(g.Host, g.Managed), "Command", g.Command(), "Server", g.URL,
				"Agent", g.Agent, "Skill", g.Skill, "Key", g.KeyFile, "Waits", g.Wait, "Starter rules", "version "+strconv.Itoa(g.Rules))
		},
	}
	bindScope(cmd, &o)
	return cmd
}

// readGuard reads the guard of a host, which must be installed.
func (e *Env) readGuard(found *guarded) (*guard.Guard, error) {
	g, err := guard.ReadRecord(found.machine, found.host, found.managed)
	if err == nil && g == nil {
		err = fmt.Errorf("guard of %s: must be installed: holdpoint guard %s", found.host, found.host)
	}
	return g, err
}

func newGuardStatusCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "status [HOST]", Short: "Check that the guard is there and works",
		Long: `Check the guard of a host, or of all hosts that have one. The hook's command is read from the file that
the host reads and run as the host runs it, with a call that a rule denies. The exit code is 1 if the
hook is gone or altered, if something else turns hooks off, or if the server does not answer.`,
		Example:   "  holdpoint guard status\n  holdpoint guard status claude-code --json",
		Args:      usage(cobra.MaximumNArgs(1)),
		ValidArgs: tool.Hosts(),
		RunE: func(cmd *cobra.Command, args []string) error {
			guards, err := e.listGuards(args, &o)
			if err != nil {
				return err
			}
			broken, shown := false, map[guard.Host][]guard.Finding{}
			for _, one := range guards {
				e.noteLimits(one.guarded, one.Local)
				findings := one.Canary(cmd.Context(), one.machine)
				shown[one.Host] = append(append([]guard.Finding{}, shown[one.Host]...), findings...)
				broken = broken || guard.IsBroken(findings)
				if err := e.showFindings(&one, findings); err != nil {
					return err
				}
			}
			if e.json {
				if err := e.printEncoded(shown); err != nil {
					return err
				}
			}
			if broken {
				return &ExitError{Code: ExitFailure}
			}
			return nil
		},
	}
	bindScope(cmd, &o)
	return cmd
}

// installedGuard is a guard and the machine that it is on.
type installedGuard struct {
	*guarded
	*guard.Guard
}

// listGuards returns the guard of the host that was named, or of all hosts that have one.
func (e *Env) listGuards(names []string, o *guardOptions) ([]installedGuard, error) {
	if len(names) == 0 {
		names = tool.Hosts()
	}
	scopes := []string{o.scope}
	if o.scope == "" {
		scopes = []string{scopeMachine, scopeUser}
	}
	var guards []installedGuard
	for _, name := range names {
		for _, scope := range scopes {
			of := *o
			of.scope = scope
			found, err := e.findGuarded(name, &of)
			if err != nil {
				return nil, err
			}
			g, err := guard.ReadRecord(found.machine, found.host, found.managed)
			if err != nil {
				return nil, err
			}
			if g == nil {
				continue
			}
			if owner, err := user.LookupId(strconv.Itoa(g.Owner)); err == nil && o.user == "" {
				found.machine.Home, found.owner = owner.HomeDir, g.Owner
			}
			guards = append(guards, installedGuard{found, g})
		}
	}
	if len(guards) == 0 {
		return nil, errors.New("no guard is installed here: holdpoint guard HOST installs one")
	}
	return guards, nil
}

func (e *Env) showFindings(one *installedGuard, findings []guard.Finding) error {
	if e.json {
		return nil
	}
	var b strings.Builder
	state := "works: the server refused a call that a rule denies"
	if guard.IsBroken(findings) {
		state = "DOES NOT HOLD"
	}
	fmt.Fprintf(&b, "%s (%s): %s\n", one.Host, one.machine.File(one.Host, one.Managed), state)
	for _, finding := range findings {
		fmt.Fprintf(&b, "  %s\n", finding)
	}
	return write(e.Stdout, Visible(b.String()))
}

func newGuardTestCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "test HOST", Short: "Start the host once, and let its model ask for a call that must be refused",
		Long: `Start the coding agent itself once, without a person, and ask its model to run a command that a rule
denies. It uses the model that the agent is set up with. The test passes if the server's refusal reaches
the model, which proves that the agent runs the hook. The command does nothing if it is run.`,
		Example:   "  holdpoint guard test claude-code",
		ValidArgs: tool.Hosts(),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := e.findGuarded(args[0], &o)
			if err != nil {
				return err
			}
			if _, err := e.readGuard(found); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			output, err := guard.TryHost(ctx, found.host, found.machine.Work)
			if err != nil {
				e.notef("%s", output)
				return err
			}
			return write(e.Stdout, fmt.Sprintf("%s runs the hook: the server's refusal reached its model.\n", found.host))
		},
	}
	bindScope(cmd, &o)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long the host may take")
	return cmd
}

func newGuardRulesCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "rules HOST", Short: "Print the starter rules of a host",
		Long: `Print the starter rules of a host, as a section of holdpoint.yaml. Reading and searching inside the
projects pass and are recorded. The shell, edits, writes, the network and other paths wait for a person.`,
		Example:   "  holdpoint guard rules claude-code --agent laptop --project /home/me/src | holdpoint apply -f -",
		ValidArgs: tool.Hosts(),
		RunE: func(_ *cobra.Command, args []string) error {
			o.scope = scopeUser
			found, err := e.findGuarded(args[0], &o)
			if err != nil {
				return err
			}
			projects, err := findProjects(found.machine, o.projects)
			if err != nil {
				return err
			}
			if err := findRuleNames(found, &o); err != nil {
				return err
			}
			text, err := guard.StarterRules(found.host, o.agent, o.skill, projects)
			if err != nil {
				return &usageError{err}
			}
			return write(e.Stdout, text)
		},
	}
	bindRuleNames(cmd, &o)
	cmd.Flags().StringArrayVar(&o.projects, "project", nil, "folder in which the host may read; may be given more than once (default this folder)")
	return cmd
}

// bindRuleNames adds the flags that say whose calls rules are about.
func bindRuleNames(cmd *cobra.Command, o *guardOptions) {
	cmd.Flags().StringVar(&o.agent, "agent", "", "name of the agent whose calls the rules are about (default the one of the installed guard)")
	cmd.Flags().StringVar(&o.skill, "skill", "", "name of the skill of the host's built-in tools (default the one of the installed guard, or HOST)")
}

// findRuleNames fills the agent and the skill from the installed guard.
func findRuleNames(found *guarded, o *guardOptions) error {
	for _, managed := range []bool{true, false} {
		g, err := guard.ReadRecord(found.machine, found.host, managed)
		if err != nil {
			return err
		}
		if g != nil && (o.agent == "" || o.agent == g.Agent) {
			o.agent, o.skill = g.Agent, cmp.Or(o.skill, g.Skill)
		}
	}
	o.skill = cmp.Or(o.skill, string(found.host))
	if !plain.IsName(o.agent) {
		return misusef("--agent %q: %s", o.agent, plain.NameForm)
	}
	return nil
}

func newGuardImportCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "import HOST [FILE…]", Short: "Translate the host's own permissions into rules",
		Long: `Translate the permissions of Claude Code (permissions in settings.json) or Codex (*.rules) into rules, and
print them as a section of holdpoint.yaml. Without files, those of the user and of this folder are read.

No rule allows more than the permission. A command passes only as a single command: with &&, ;, |, $(…),
redirections or line breaks it waits. What cannot be said exactly is left out, with a note.`,
		Example: `  holdpoint guard import claude-code --agent laptop --project /home/me/src > rules.yaml
  holdpoint guard import codex ~/.codex/rules/default.rules --apply`,
		Args:      usage(cobra.MinimumNArgs(1)),
		ValidArgs: []string{string(guard.ClaudeCode), string(guard.Codex)},
		RunE:      func(cmd *cobra.Command, args []string) error { return e.importPermissions(cmd.Context(), args, &o) },
	}
	bindRuleNames(cmd, &o)
	cmd.Flags().StringArrayVar(&o.projects, "project", nil, "folder to which relative paths belong; may be given more than once (default this folder)")
	cmd.Flags().BoolVar(&o.apply, "apply", false, "create the rules on the server")
	return cmd
}

func (e *Env) importPermissions(ctx context.Context, args []string, o *guardOptions) error {
	o.scope = scopeUser
	found, err := e.findGuarded(args[0], o)
	if err != nil {
		return err
	}
	projects, err := findProjects(found.machine, o.projects)
	if err != nil {
		return err
	}
	m := found.machine
	var usual []string
	switch found.host {
	case guard.ClaudeCode:
		usual = []string{m.File(guard.ClaudeCode, false), filepath.Join(m.Work, ".claude", "settings.json"), filepath.Join(m.Work, ".claude", "settings.local.json")}
	case guard.Codex:
		for _, folder := range []string{filepath.Dir(m.File(guard.Codex, false)), filepath.Join(m.Work, ".codex")} {
			more, err := filepath.Glob(filepath.Join(folder, "rules", "*.rules"))
			if err != nil {
				return fmt.Errorf("find rules files: %w", err)
			}
			usual = append(usual, more...)
		}
	case guard.Gemini, guard.Copilot, guard.OpenCode, guard.Cursor:
		return misusef("import %s: must be claude-code or codex", found.host)
	}
	files := args[1:]
	if len(files) == 0 {
		if files = slices.DeleteFunc(usual, func(path string) bool { return !fileExists(path) }); len(files) == 0 {
			return fmt.Errorf("no permissions of %s: must be one of the files %s", found.host, strings.Join(usual, ", "))
		}
	}
	if err := findRuleNames(found, o); err != nil {
		return err
	}
	importer := &guard.Importer{Agent: o.agent, Skill: o.skill, Home: m.Home, Projects: projects}
	for _, file := range files {
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if found.host == guard.Codex {
			err = importer.Codex(file, text)
		} else {
			err = importer.ClaudeCode(file, text)
		}
		if err != nil {
			return err
		}
	}
	imported := importer.Result()
	for _, note := range imported.Notes {
		e.notef("%s", note)
	}
	if !o.apply {
		return write(e.Stdout, imported.YAML())
	}
	api, err := e.newClient(e.token)
	if err != nil {
		return err
	}
	specs := make([]any, len(imported.Rules))
	for i := range imported.Rules {
		specs[i] = imported.Rules[i].Spec
	}
	text, err := api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": map[string]any{"rules": specs}, "dry_run": false})
	return printReply(e, client.Reply[client.List[client.Change]](text), err, func(changes *client.List[client.Change]) error {
		return e.showChanges(changes.Items, false)
	})
}
