package cli

import (
	"errors"
	"fmt"
	"io"
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
		Short: "Declare skills, agents and assignments",
		Long: `Make the server have the skills, agents and assignments that a file declares, all or none of
them, and print what changes. What the file does not name stays; the skills of an agent that it
names are all that the agent has. Applied again it changes nothing.

Values of headers, variables, keys and clients' secrets may stand in variables or files of this
machine, as {env: NAME} and {file: PATH}, or with the suffixes _env and _file (api_key_env: NAME,
client_secret_file: PATH). They are sent to the server, which stores them encrypted. Where a skill's
"spec" is a path, the OpenAPI document there is sent. Paths are relative to the file's folder. The
file's part "server:" is ignored.`,
		Example: `  holdpoint apply -f holdpoint.yaml --dry-run
  holdpoint apply -f holdpoint.yaml`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.apply(cmd, file, dryRun) },
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", `the file; "-" is the standard input`)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and change nothing")
	return cmd
}

// change is one change that the server made, or would make.
type change struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action string `json:"action"`
	Fields []struct {
		Field string `json:"field"`
		Old   string `json:"old"`
		New   string `json:"new"`
	} `json:"fields"`
}

func (e *Env) apply(cmd *cobra.Command, file string, dryRun bool) error {
	if file == "" {
		return misuse("name a file with -f")
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
	api, err := e.client()
	if err != nil {
		return err
	}
	answer, err := api.Post(cmd.Context(), "apply", map[string]any{"spec": declared.Spec, "dry_run": dryRun})
	if err != nil {
		return located(declared, err)
	}
	if e.json {
		return e.printJSON(answer)
	}
	changes, err := decode[list[change]](answer)
	if err != nil {
		return err
	}
	return e.printChanges(changes.Items, dryRun)
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

// located turns the server's complaints about the spec into complaints about the file.
func located(declared *manifest.Manifest, err error) error {
	var problem *client.Problem
	if !errors.As(err, &problem) {
		return err
	}
	var all manifest.Errors
	for _, field := range problem.Errors {
		path, ok := strings.CutPrefix(field.Location, "body.spec")
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

func (e *Env) printChanges(changes []change, dryRun bool) error {
	var b strings.Builder
	marks := map[string]string{"create": "+", "update": "~", "delete": "-", "unchanged": "="}
	count := map[string]int{}
	for _, c := range changes {
		count[c.Action]++
		fmt.Fprintf(&b, "%s %s %s\n", marks[c.Action], c.Kind, cell(c.Name))
		for _, f := range c.Fields {
			switch {
			case f.Old == "":
				fmt.Fprintf(&b, "    %s: %s\n", cell(f.Field), cell(f.New))
			case f.New == "":
				fmt.Fprintf(&b, "    %s: %s → not set\n", cell(f.Field), cell(f.Old))
			default:
				fmt.Fprintf(&b, "    %s: %s → %s\n", cell(f.Field), cell(f.Old), cell(f.New))
			}
		}
	}
	verb := ""
	if dryRun {
		verb = "would be "
	}
	fmt.Fprintf(&b, "%d %screated, %d %schanged, %d %sdeleted, %d unchanged\n",
		count["create"], verb, count["update"], verb, count["delete"], verb, count["unchanged"])
	return write(e.Stdout, b.String())
}
