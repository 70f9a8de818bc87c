package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^ *```sh[^\n]*\n(.*?)^ *```$")
	// commandStart finds a command at the beginning of a line or after an operator, behind sudo and variables.
	commandStart  = regexp.MustCompile(`(?:^|[|&;(] *)(?:sudo(?: --\S+)* )?(?:[A-Z_]+=\S+ )*(?:\./|/usr/local/bin/)?holdpoint (.*)$`)
	inlineCommand = regexp.MustCompile("`holdpoint ([a-z][^`]*)`")
)

// TestDocumentedCommands: each holdpoint command in the documentation exists, and takes the flags and the number of arguments that it is
// given there. Within a sentence, arguments may be left out. TestDocumentation in e2e also runs those that can run there.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	seen := 0
	check := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				found := commandStart.FindStringSubmatch(stripComment(strings.TrimSpace(line)))
				if found == nil {
					continue
				}
				seen++
				if err := checkCommand(splitShellLine(found[1])); err != nil {
					t.Errorf("%s: holdpoint %s: %v", path, found[1], err)
				}
			}
		}
		for _, found := range inlineCommand.FindAllStringSubmatch(string(text), -1) {
			seen++
			if err := checkFlags(splitShellLine(strings.ReplaceAll(found[1], "\n", " "))); err != nil {
				t.Errorf("%s: holdpoint %s: %v", path, found[1], err)
			}
		}
	}
	check("../../README.md")
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			check(path)
		}
		return err
	})
	if err != nil || seen < 200 {
		t.Errorf("%d commands, %v", seen, err)
	}
}

func newSilentRoot() *cobra.Command {
	e := &cli.Env{Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	return cli.NewRoot(e, newServeCmd(e), newDemoCmd(e))
}

// checkFlags finds a command and its flags, and leaves its arguments.
func checkFlags(args []string) error {
	cmd, rest, err := newSilentRoot().Find(args)
	if err != nil {
		return err
	}
	for _, arg := range rest {
		name, _, _ := strings.Cut(arg, "=")
		if name, isFlag := strings.CutPrefix(name, "--"); isFlag && name != "help" && cmd.Flag(name) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
	}
	if !cmd.Runnable() && len(rest) > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), rest[0])
	}
	return nil
}

// checkCommand parses a command without running it.
func checkCommand(args []string) error {
	root := newSilentRoot()
	var replace func(*cobra.Command)
	replace = func(cmd *cobra.Command) {
		if cmd.Runnable() {
			cmd.RunE, cmd.Run, cmd.PreRunE, cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return nil }, nil, nil, nil
		}
		for _, below := range cmd.Commands() {
			replace(below)
		}
	}
	replace(root)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root.Execute()
}

// stripComment removes a comment of the shell.
func stripComment(line string) string {
	if strings.HasPrefix(line, "#") {
		return ""
	}
	line, _, _ = strings.Cut(line, " #")
	return line
}

// splitShellLine splits a command into words up to the operator that ends it. Quotes join words.
func splitShellLine(text string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	flush := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ':
			flush()
		case strings.ContainsRune("|&;<>()", r):
			flush()
			return words
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	flush()
	return words
}
