// Command holdpoint is the server and its commands. This package joins the parts. Only cmd reads flags, the environment and
// the clock.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
	_ "time/tzdata" // images may lack the time zones

	"github.com/mattn/go-isatty"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/runtime"
)

func main() {
	if err := hideEnvironment(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "holdpoint:", err)
		os.Exit(cli.ExitFailure)
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// run runs one command and returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &cli.Env{
		Getenv: getenv, Stdin: stdin, Stdout: stdout, Stderr: stderr, Now: time.Now, Version: readVersion(), Terminal: isTerminal(stdin), StdoutTerminal: isTerminal(stdout), StderrTerminal: isTerminal(stderr),
		Reseal: resealSecrets, Refused: runtime.RefusedSkills,
		Examine: func(ctx context.Context, x cli.Examination) error { return examineSkill(ctx, x, getenv("PATH")) },
	}
	return cli.Run(ctx, e, args, newServeCmd(e), newDemoCmd(e))
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// readVersion returns the version in the build information: a release, or a commit.
func readVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, modified := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value[:min(len(setting.Value), 12)]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = "+changes"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit + modified
}
