package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

var pages = flag.String("pages", "", "write the manual pages and completions of a release into this `directory`")

// TestPages makes a manual page for each command, and the completions of three shells.
func TestPages(t *testing.T) {
	t.Parallel()
	dir := *pages
	if dir == "" {
		dir = t.TempDir()
	}
	e := &cli.Env{Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Now: time.Now}
	root := cli.NewRoot(e, newServeCmd(e), newDemoCmd(e))
	root.DisableAutoGenTag = true // its date would differ between two builds
	root.InitDefaultCompletionCmd()

	manual := filepath.Join(dir, "man1")
	if err := os.MkdirAll(manual, 0o755); err != nil {
		t.Fatal(err)
	}
	epoch := time.Unix(0, 0).UTC()
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Holdpoint", Manual: "Holdpoint", Date: &epoch}, manual); err != nil {
		t.Fatal(err)
	}
	checkPages(t, root, manual)

	completions := filepath.Join(dir, "completions")
	if err := os.MkdirAll(completions, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, generate := range map[string]func(io.Writer) error{
		"holdpoint.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_holdpoint":     root.GenZshCompletion,
		"holdpoint.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		var text strings.Builder
		if err := generate(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "__complete") {
			t.Errorf("%s does not ask the program for completions", name)
		}
		if err := os.WriteFile(filepath.Join(completions, name), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPages checks that each command has a page with its flags.
func checkPages(t *testing.T, cmd *cobra.Command, dir string) {
	t.Helper()
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	}
	plain := strings.ReplaceAll(string(text), `\-`, "-")
	for line := range strings.Lines(cmd.NonInheritedFlags().FlagUsages()) {
		_, flag, ok := strings.Cut(line, "--")
		if flag, _, _ = strings.Cut(flag, " "); ok && !strings.Contains(plain, "--"+strings.TrimSpace(flag)) {
			t.Errorf("%s lacks --%s", name, flag)
		}
	}
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			checkPages(t, below, dir)
		}
	}
}
