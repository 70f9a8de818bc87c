package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// skillImport are the parameters of an entry of holdpoint.yaml.
type skillImport struct {
	name, spec, baseURL, out string
	include, exclude         []string
}

func newSkillImportCmd(e *Env) *cobra.Command {
	var i skillImport
	cmd := &cobra.Command{
		Use: "import SPEC --name NAME", Short: "Write the entry of holdpoint.yaml for an API that has an OpenAPI document",
		Long: `Read an OpenAPI document, 3.0 or 3.1, from a file or a URL, and write a skill for "holdpoint apply": the
document, its base URL, its operations and the authentication of requests. Comments summarize each
operation, and say which ones cannot be tools, and why. No running Holdpoint is needed.

Up to 200 operations are listed one by one: delete those that agents should not have. --include and
--exclude are written in place of the list.`,
		Example: `  holdpoint skill import shop.yaml --name shop -o holdpoint.yaml
  holdpoint skill import https://shop.example/openapi.json --name shop --include tag=orders`,
		RunE: func(cmd *cobra.Command, args []string) error {
			i.spec = args[0]
			return e.importSkill(cmd.Context(), &i)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&i.name, "name", "", "name of the skill")
	flags.StringVar(&i.baseURL, "base-url", "", "base URL of the API (default the first server in the document)")
	flags.StringArrayVar(&i.include, "include", nil, "operations to offer, as in holdpoint skill create")
	flags.StringArrayVar(&i.exclude, "exclude", nil, "operations to leave out again, in the same form")
	flags.StringVarP(&i.out, "output", "o", "", "the file to write (default the standard output)")
	return cmd
}

func (e *Env) importSkill(ctx context.Context, i *skillImport) error {
	if i.name == "" {
		return misusef("name the skill with --name")
	}
	if !tool.ValidName(i.name) { // the server would refuse it
		return misusef("--name %s", tool.NameRule)
	}
	api := tool.API{}
	var err error
	if api.Include, err = parseFilters("include", i.include); err != nil {
		return err
	}
	if api.Exclude, err = parseFilters("exclude", i.exclude); err != nil {
		return err
	}
	found, chosen, err := e.examineSpec(ctx, i, api)
	if err != nil {
		return fmt.Errorf("import %s: %w", i.spec, err)
	}
	text := entry(i, api, found, chosen)
	if i.out == "" {
		return write(e.Stdout, text)
	}
	if err := writeNew(i.out, text); err != nil {
		return err
	}
	e.notef("Wrote %s: %d of %d operations. Review it, then run: holdpoint apply -f %s --dry-run", i.out, len(chosen), len(found.Operations), i.out)
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return misusef("--output: %s exists already; name another file, or print to the terminal and add it yourself", path)
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// examineSpec reads the document, and returns the names of the tools that the filters select.
func (e *Env) examineSpec(ctx context.Context, i *skillImport, api tool.API) (*setting.Examination, map[string]bool, error) {
	var document []byte
	const digest = "given"
	source := httptool.New(httptool.Config{Document: func(context.Context, string) ([]byte, error) { return document, nil }})
	defer source.Close()
	var found setting.Examination
	var err error
	if manifest.IsURL(i.spec) {
		api.Spec = i.spec
		found, err = source.Examine(ctx, i.spec)
	} else {
		if document, err = os.ReadFile(i.spec); err != nil {
			return nil, nil, err
		}
		api.Document = digest
		found, err = source.ExamineDocument(ctx, document)
	}
	if err != nil {
		return nil, nil, plainFailure(err)
	}
	if i.baseURL = cmp.Or(i.baseURL, found.BaseURL); i.baseURL == "" {
		return nil, nil, misusef("%s: name it with --base-url", found.BaseURLReason)
	}
	for _, p := range setting.Validate(&api, tool.OpenAPI) {
		return nil, nil, misusef("--%s", p)
	}
	listing, err := source.List(ctx, tool.Server{Skill: i.name, Transport: tool.OpenAPI, URL: i.baseURL, API: &api})
	if err != nil {
		return nil, nil, plainFailure(err)
	}
	chosen := map[string]bool{}
	for _, d := range listing.Tools {
		chosen[d.Name] = true
	}
	if len(chosen) == 0 {
		return nil, nil, errors.New("no operation is left that can be a tool")
	}
	return &found, chosen, nil
}

// plainFailure is a failure without its kind, which does not matter here.
func plainFailure(err error) error {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return errors.New(failure.Message)
	}
	return err
}

// maxListed is how many operations are written one by one, as many filters as a skill may have.
const maxListed = 200

// entry writes the YAML.
func entry(i *skillImport, api tool.API, found *setting.Examination, chosen map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", clipCell(strings.TrimSpace(found.Title+" "+found.Version), 100))
	b.WriteString("skills:\n")
	fmt.Fprintf(&b, "  - name: %s\n    transport: openapi\n    spec: %s\n    base_url: %s\n", yamlText(i.name), yamlText(i.specFor()), yamlText(i.baseURL))
	listed := len(api.Include)+len(api.Exclude) == 0 && len(chosen) <= maxListed
	if listed {
		b.WriteString("    include:\n")
	}
	writeFilters(&b, "include", api.Include)
	writeFilters(&b, "exclude", api.Exclude)
	if !listed {
		b.WriteString("    # Its tools, by the document as it is now:\n")
	}
	for _, o := range found.Operations {
		if !chosen[o.Name] {
			continue
		}
		about := strings.TrimSpace(o.Method + " " + o.Path + " " + o.Summary)
		if o.Deprecated {
			about += " (deprecated)"
		}
		if listed {
			fmt.Fprintf(&b, "      - %s # %s\n", filterText(found.FilterOf(&o)), clipCell(about, 120))
		} else {
			fmt.Fprintf(&b, "    #   %s: %s\n", escapeCell(o.Name), clipCell(about, 120))
		}
	}
	writeSkipped(&b, found, chosen)
	writeAuth(&b, i.name, found.SecuritySchemes)
	b.WriteString("    # Show reviewers the current state of what a PUT, PATCH or DELETE would change:\n    # preview: true\n")
	return b.String()
}

// specFor is the path or URL of the document, relative to the file that is written.
func (i *skillImport) specFor() string {
	if manifest.IsURL(i.spec) || filepath.IsAbs(i.spec) {
		return i.spec
	}
	if i.out == "" { // the folder of the file is unknown
		if path, err := filepath.Abs(i.spec); err == nil {
			return path
		}
		return i.spec
	}
	from, err := filepath.Abs(filepath.Dir(i.out))
	if err != nil {
		return i.spec
	}
	to, err := filepath.Abs(i.spec)
	if err != nil {
		return i.spec
	}
	if relative, err := filepath.Rel(from, to); err == nil {
		return relative
	}
	return to
}

func writeFilters(b *strings.Builder, field string, filters []tool.OperationFilter) {
	if len(filters) > 0 {
		fmt.Fprintf(b, "    %s:\n", field)
	}
	for _, f := range filters {
		fmt.Fprintf(b, "      - %s\n", filterText(f))
	}
}

func filterText(f tool.OperationFilter) string {
	var parts []string
	for _, member := range []struct{ name, value string }{
		{"operation_id", f.OperationID}, {"tag", f.Tag}, {"method", f.Method}, {"path", f.Path},
	} {
		if member.value != "" {
			parts = append(parts, member.name+": "+yamlText(member.value))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func writeSkipped(b *strings.Builder, found *setting.Examination, chosen map[string]bool) {
	var skipped, left int
	for _, o := range found.Operations {
		switch {
		case o.Skipped == "" && !chosen[o.Name]:
			left++
		case o.Skipped != "":
			if skipped++; skipped == 1 {
				b.WriteString("    # Operations that cannot be tools, and why:\n")
			}
			fmt.Fprintf(b, "    #   %s: %s\n", clipCell(strings.TrimSpace(o.Method+" "+o.Path), 120), clipCell(o.Skipped, 200))
		}
	}
	if left > 0 {
		fmt.Fprintf(b, "    # Operations that the filters leave out: %d\n", left)
	}
}

// writeAuth writes the first authentication that needs only a secret, and lists the others in comments.
func writeAuth(b *strings.Builder, name string, schemes []setting.SecurityScheme) {
	first := slices.IndexFunc(schemes, func(s setting.SecurityScheme) bool { return s.Auth() != nil })
	if first >= 0 {
		auth := schemes[first].Auth()
		parts := []string{"type: " + auth.Type}
		secret := "TOKEN"
		switch auth.Type {
		case tool.APIKey:
			secret = "KEY"
			parts = append(parts, "in: "+yamlText(auth.In), "name: "+yamlText(auth.Name))
		case tool.APIBasic:
			secret = "PASSWORD"
			parts = append(parts, "username: user")
			b.WriteString("    # Set the user name.\n")
		}
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_" + secret
		if variable[0] >= '0' && variable[0] <= '9' {
			variable = "_" + variable
		}
		fmt.Fprintf(b, "    # %s, as the document declares it. The secret comes from a variable of the machine where apply runs.\n", clipCell(schemes[first].Name, 60))
		fmt.Fprintf(b, "    auth: {%s, secret_env: %s}\n", strings.Join(parts, ", "), variable)
	}
	for at, s := range schemes {
		if at != first {
			fmt.Fprintf(b, "    # Also declared: %s, %s\n", clipCell(s.Name, 60), clipCell(schemeWords(s), 300))
		}
	}
}

func schemeWords(s setting.SecurityScheme) string {
	if auth := s.Auth(); auth != nil {
		return strings.TrimSpace("auth: {type: " + auth.Type + "} " + auth.In + " " + auth.Name)
	}
	words := []string{s.Type}
	for _, f := range s.Flows {
		words = append(words, strings.TrimSpace(f.Type+" "+f.TokenURL+" scopes "+strings.Join(f.Scopes, " ")))
	}
	if s.OpenIDConnectURL != "" {
		words = append(words, s.OpenIDConnectURL)
	}
	if s.Type == "oauth2" || s.Type == "openIdConnect" {
		words = append(words, "see oauth")
	}
	return strings.Join(words, "; ")
}

// plainYAML matches texts that YAML needs no quotes for.
var plainYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)

// yamlText writes a text so that YAML reads it back.
func yamlText(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		return strconv.Quote(text)
	}
	if plainYAML.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
