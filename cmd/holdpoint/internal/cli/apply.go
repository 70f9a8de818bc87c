package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/client"
)

func newApplyCmd(e *Env) *cobra.Command {
	var file string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Declare skills, agents, assignments and rules",
		Long: `Create or change the skills, agents, assignments and rules that a file declares, all or none of them,
and print the changes. Skills, agents and rules that the file does not name stay; the skills of an
agent that it names are all that the agent has. Applied again it changes nothing.

Values of headers, variables, keys and client secrets may come from variables or files of this
machine, as {env: NAME} and {file: PATH}, or with the suffixes _env and _file (api_key_env: NAME,
client_secret_file: PATH). They are sent to the server, which stores them encrypted. If a skill's
"spec" is a path, the OpenAPI document there is sent. Paths are relative to the file's folder. The
file's section "server:" is ignored.`,
		Example: `  holdpoint apply -f holdpoint.yaml --dry-run
  holdpoint apply -f holdpoint.yaml`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			if file == "" {
				return misusef("name a file with -f")
			}
			text, err := e.readFile(file)
			if err != nil {
				return err
			}
			if file == "-" {
				file = "standard input"
			}
			declared, err := manifest.Parse(file, text, manifest.Options{Getenv: e.Getenv})
			if err != nil {
				return err
			}
			text, err = api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": declared.Spec, "dry_run": dryRun})
			if err != nil {
				return locateErrors(declared, "body.spec", err)
			}
			return printReply(e, client.Reply[client.List[client.Change]](text), nil, func(changes *client.List[client.Change]) error {
				return e.showChanges(changes.Items, dryRun)
			})
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", `the file; "-" is the standard input`)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the changes without making them")
	return cmd
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
	var problem *client.Problem
	if !errors.As(err, &problem) {
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
