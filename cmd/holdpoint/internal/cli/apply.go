package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/client"
)

const secretsHelp = `Secrets (values of headers, variables, keys and client secrets) may come from this machine: {env: NAME},
{file: PATH} or {exec: [PROGRAM, ARGUMENT, …]}, or with the suffixes _env, _file and _exec (api_key_env: NAME).
They are sent to the server, which stores them encrypted. {stored: true} keeps the value that the server has.
If a skill's "spec" is a path, the OpenAPI document there is sent. Paths are relative to the file's folder.
The section "server:" is ignored.`

func newApplyCmd(e *Env) *cobra.Command {
	var d declaration
	var dryRun, wait bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Declare skills, agents, assignments, rules and policies",
		Long: `Create or change the skills, agents, assignments, rules and policies that files declare, all or none
of them, and print the changes. What no file names stays; the skills of an agent that a file names are
all that the agent has. Applied again it changes nothing.

-f names a file or a folder, and may be repeated. Of a folder, all files that end in .yaml or .yml are
read, in order of their names. A name may be declared once. If something is wrong, all errors are shown
with their lines, those that only the server finds included, and nothing is changed. A tool that its
skill does not have is a warning, because servers change their tools.

--label marks what the files declare. With --prune, what has the label and is in no file any more is
deleted. What was made in the dashboard, or has another label, is never deleted.

` + secretsHelp,
		Example: `  holdpoint apply -f holdpoint.yaml --dry-run
  holdpoint apply -f holdpoint.yaml
  holdpoint apply -f skills/ -f agents/ -f rules.yaml
  holdpoint apply -f config/ --label platform --prune`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := e.applyFiles(ctx, api, d, dryRun)
			err = printReply(e, reply, err, func(changes *client.List[client.Change]) error {
				return e.showChanges(changes.Items, dryRun)
			})
			if err != nil || !wait || dryRun {
				return err
			}
			changes, err := reply.Value()
			if err != nil {
				return err
			}
			return e.awaitSkills(ctx, api, changes.Items)
		}),
	}
	d.bindFlags(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "then connect to each skill of the files, and print its health; the exit code is 1 if one does not answer")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the server find all changes and errors, without making the changes")
	return cmd
}

// awaitSkills lets the server connect to the skills that were applied, and prints how that went.
func (e *Env) awaitSkills(ctx context.Context, api *client.Client, changes []client.Change) error {
	var names []string
	for _, c := range changes {
		if c.Kind == "skill" && c.Action != "delete" && c.Waits == "" {
			names = append(names, c.Name)
		}
	}
	var err error
	for _, f := range checkSkills(ctx, api, names) {
		e.notef("%-5s %s: %s", f.Status, f.Check, f.Detail)
		if f.Status != ok {
			e.notef("      → %s", f.Advice)
			err = &ExitError{Code: ExitFailure}
		}
	}
	return err
}

func newDiffCmd(e *Env) *cobra.Command {
	var d declaration
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show how the server differs from files",
		Long: `Print what holdpoint apply would change, without changing it. This also shows what was changed in the
dashboard or over the API since the files were applied. The values are those of the server and, after
the arrow, those of the files.

Exit codes: 0 no difference, 2 differences, 1 error. Files and secrets are read as apply does.`,
		Example: `  holdpoint diff -f holdpoint.yaml
  holdpoint diff -f skills/ -f agents/ || echo "drift, or an error"`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := e.applyFiles(ctx, api, d, true)
			if err != nil {
				return err
			}
			changes, err := reply.Value()
			if err != nil {
				return err
			}
			differs := slices.DeleteFunc(slices.Clone(changes.Items), func(c client.Change) bool { return c.Action == "unchanged" })
			err = printReply(e, reply, nil, func(*client.List[client.Change]) error {
				if len(differs) == 0 {
					return write(e.Stdout, "no differences\n")
				}
				return e.showChanges(differs, true)
			})
			if err == nil && len(differs) > 0 {
				err = &ExitError{Code: ExitDiffers}
			}
			return err
		}),
	}
	d.bindFlags(cmd)
	return cmd
}

func newExportCmd(e *Env) *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print what is there as a file that apply takes",
		Long: `Print all skills, agents, assignments, rules and policies as a holdpoint.yaml that, applied, changes nothing.
Settings that equal their defaults are left out. Secrets are written as {stored: true}, which keeps the value
that this server has; for another server, replace it with {env: NAME}, {file: PATH} or {exec: [PROGRAM]}.

--output writes holdpoint.yaml into a folder, and beside it the OpenAPI documents that the server stores.`,
		Example: `  holdpoint export > holdpoint.yaml
  holdpoint export --output backup/`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ExportSpec(ctx)
			if err != nil || e.json {
				return printReply(e, reply, err, nil)
			}
			found, err := client.Value(client.Reply[exported](reply), nil)
			if err != nil {
				return err
			}
			return e.writeExport(ctx, api, found, folder)
		}),
	}
	cmd.Flags().StringVarP(&folder, "output", "o", "", "write into this folder, which is made if necessary")
	return cmd
}

func newSchemaCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of holdpoint.yaml, for editors",
		Long: `Print the JSON Schema of holdpoint.yaml. Editors with the YAML language server use it to complete and check
keys if the file begins with:

  # yaml-language-server: $schema=holdpoint.schema.json`,
		Example: `  holdpoint schema > holdpoint.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			text, err := manifest.Schema()
			if err != nil {
				return err
			}
			return write(e.Stdout, string(text))
		},
	}
}

// declaration has the flags of the files that are applied.
type declaration struct {
	files []string
	label string
	prune bool
}

func (d *declaration) bindFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&d.files, "file", "f", nil, `a file or a folder, repeatable; "-" is the standard input`)
	cmd.Flags().StringVar(&d.label, "label", "", "mark what the files declare with this name")
	cmd.Flags().BoolVar(&d.prune, "prune", false, "delete what has the label and is in no file any more")
}

// applyFiles sends the spec of files to the server. Its error has all errors of the files, also those that only the server finds.
func (e *Env) applyFiles(ctx context.Context, api *client.Client, d declaration, dryRun bool) (client.Reply[client.List[client.Change]], error) {
	if len(d.files) == 0 {
		return nil, misusef("name a file with -f")
	}
	if d.prune && d.label == "" {
		return nil, misusef("--prune needs --label: only what was applied with a label is deleted")
	}
	files, err := e.readFiles(d.files)
	if err != nil {
		return nil, err
	}
	declared, wrong := manifest.ParseFiles(files, manifest.Options{
		Getenv: e.Getenv, Label: d.label, Prune: d.prune,
		Run: func(folder string, command []string) ([]byte, error) { return runForSecret(ctx, folder, command) },
	})
	if declared == nil || len(wrong) > 0 && declared.Torn {
		return nil, wrong
	}
	text, err := api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": declared.Spec, "dry_run": dryRun || len(wrong) > 0})
	if len(wrong) == 0 {
		if err == nil {
			e.warnUnknownTools(ctx, api, declared)
		}
		return text, locateErrors(declared, "body.spec", err)
	}
	var more manifest.Errors
	if err != nil && !errors.As(locateErrors(declared, "body.spec", err), &more) {
		e.notef("The server did not check the files: %s", Visible(describeError(err)))
	}
	more = slices.DeleteFunc(more, func(one *manifest.Error) bool { return declared.Explains(one.Path) })
	return nil, wrong.Merge(more)
}

// readFiles reads files, and the files of folders, in the order of their names. A file that is named twice is read once.
func (e *Env) readFiles(names []string) ([]manifest.File, error) {
	var files []manifest.File
	read := map[string]bool{}
	add := func(name string) error {
		if read[filepath.Clean(name)] {
			return nil
		}
		read[filepath.Clean(name)] = true
		text, err := e.readFile(name)
		if name == "-" {
			name = "standard input"
		}
		files = append(files, manifest.File{Name: name, Text: text})
		return err
	}
	for _, name := range names {
		entries, err := os.ReadDir(name)
		if err != nil { // it is a file, or there is none
			if err := add(name); err != nil {
				return nil, err
			}
			continue
		}
		found := 0
		for _, entry := range entries {
			isManifest := strings.HasSuffix(entry.Name(), ".yaml") || strings.HasSuffix(entry.Name(), ".yml")
			if entry.IsDir() || !isManifest || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			found++
			if err := add(filepath.Join(name, entry.Name())); err != nil {
				return nil, err
			}
		}
		if found == 0 {
			return nil, fmt.Errorf("%s: the folder has no file that ends in .yaml or .yml", name)
		}
	}
	return files, nil
}

const (
	secretTimeout = 30 * time.Second
	maxSecret     = 64 << 10
)

// runForSecret runs a program that prints a secret. Its error has the last line that the program wrote to its standard error.
func runForSecret(ctx context.Context, folder string, command []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // G204: the operator's own file names it
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("did not end within %s", secretTimeout)
	case err != nil:
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if last := clipCell(lines[len(lines)-1], maxReason); last != "" {
			return nil, fmt.Errorf("%w: %s", err, last)
		}
		return nil, err
	case stdout.Len() > maxSecret:
		return nil, fmt.Errorf("printed more than %d KiB", maxSecret>>10)
	}
	return stdout.Bytes(), nil
}

const maxReason = 200

// exported is the answer of the export, with the spec as it came.
type exported struct {
	Spec      json.RawMessage `json:"spec"`
	Documents []string        `json:"documents"`
}

// documentFolder holds the OpenAPI documents of an export. Applying a folder does not read the folders in it.
const documentFolder = "openapi"

// writeExport writes the file, and the documents in a folder beside it. It replaces no file.
func (e *Env) writeExport(ctx context.Context, api *client.Client, found exported, folder string) error {
	documents := map[string]string{}
	path := filepath.Join(folder, "holdpoint.yaml")
	if folder != "" {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s exists already: name another folder with --output", path), err)
		}
		if err := os.MkdirAll(filepath.Join(folder, documentFolder), 0o755); err != nil { //nolint:gosec // G301: it has no secrets
			return err
		}
	} else if len(found.Documents) > 0 {
		return misusef("the server stores the OpenAPI document of skill %s: name a folder for it with --output", found.Documents[0])
	}
	for _, name := range found.Documents {
		var text bytes.Buffer
		if err := api.GetDocument(ctx, name, &text); err != nil {
			return err
		}
		documents[name] = documentFolder + "/" + name + ".yaml"
		if bytes.HasPrefix(bytes.TrimSpace(text.Bytes()), []byte("{")) {
			documents[name] = documentFolder + "/" + name + ".json"
		}
		if err := os.WriteFile(filepath.Join(folder, documents[name]), text.Bytes(), 0o644); err != nil { //nolint:gosec // G306: likewise
			return err
		}
	}
	text, err := manifest.Write(found.Spec, documents)
	if err != nil {
		return err
	}
	text = append(fmt.Appendf(nil, "# Exported from %s on %s. Applied there, it changes nothing: holdpoint diff -f FILE\n"+
		"# {stored: true} keeps a secret that the server has. For another server, write {env: NAME}, {file: PATH} or {exec: [PROGRAM]}.\n",
		e.url, e.Now().UTC().Format(time.DateOnly)), text...)
	if folder == "" {
		return write(e.Stdout, string(text))
	}
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // G306: likewise
		return err
	}
	e.notef("Wrote %s.", path)
	return nil
}

// readFile reads a file that was named on the command line.
func (e *Env) readFile(name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(e.Stdin)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(name)
}

// locateErrors turns the server's errors about a part of the body into errors about lines of the file that the part came from.
func locateErrors(declared *manifest.Manifest, part string, err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return err
	}
	var all manifest.Errors
	for _, field := range problem.Errors {
		path, ok := strings.CutPrefix(field.Location, part)
		if !ok {
			return err
		}
		all = append(all, declared.Locate(strings.TrimPrefix(path, "."), field.Message))
	}
	if len(all) == 0 {
		return err
	}
	return all
}

func (e *Env) showChanges(changes []client.Change, dryRun bool) error {
	var b strings.Builder
	marks := map[string]string{"create": "+", "update": "~", "delete": "-", "unchanged": "="}
	number, waiting := map[string]int{}, 0
	for _, c := range changes {
		mark, waits := marks[c.Action], c.Waits
		if waits == "" {
			number[c.Action]++
		} else {
			mark = "?"
			waiting++
		}
		fmt.Fprintf(&b, "%s %s %s\n", mark, c.Kind, escapeCell(c.Name))
		for _, f := range c.Fields {
			writeDifference(&b, f.Field, f.Old, f.New)
		}
		switch {
		case waits == "":
		case dryRun:
			b.WriteString("    would wait for a second operator\n")
		default:
			fmt.Fprintf(&b, "    waits for a second operator: holdpoint changes approve %s\n", waits)
		}
	}
	verb := ""
	if dryRun {
		verb = "would be "
	}
	fmt.Fprintf(&b, "%d %screated, %d %schanged, %d %sdeleted, %d unchanged\n",
		number["create"], verb, number["update"], verb, number["delete"], verb, number["unchanged"])
	if waiting > 0 {
		fmt.Fprintf(&b, "%d waiting for a second operator\n", waiting)
	}
	return write(e.Stdout, b.String())
}

// writeDifference writes a changed field. An empty value is not set.
func writeDifference(b *strings.Builder, field, old, now string) {
	switch {
	case old == "":
		fmt.Fprintf(b, "    %s: %s\n", escapeCell(field), escapeCell(now))
	case now == "":
		fmt.Fprintf(b, "    %s: %s → not set\n", escapeCell(field), escapeCell(old))
	default:
		fmt.Fprintf(b, "    %s: %s → %s\n", escapeCell(field), escapeCell(old), escapeCell(now))
	}
}
