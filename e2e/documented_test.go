package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

// TestDocumentation runs the shell blocks of README.md and of the pages in docs, each page as one script. The info string of a block says
// how, and readers do not see it:
//
//	sh                         the block has to succeed
//	sh server until="TEXT"     runs beside the following blocks, which begin when it has printed TEXT, and is killed at the page's end
//	sh background until="TEXT" the same, but the block has to end and succeed
//	sh not-run="REASON"        cannot run here
//	text output                what the block before prints; … stands for any text
//
// testdata/documented has what a page's reader has done before, in PAGE.sh. Its functions find_WORD print what stands for WORD in the blocks.
// Pages without a server of their own share one.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	shared := sharedServer(t)
	ran, notRun := 0, map[string]int{}
	for _, page := range readDocumentation(t) {
		for _, block := range page.blocks {
			if reason := block.options["not-run"]; reason != "" {
				notRun[reason]++
				t.Logf("%s:%d is not run: %s", page.path, block.line, reason)
			} else {
				ran++
			}
		}
		if !slices.ContainsFunc(page.blocks, documentedBlock.runs) {
			continue
		}
		t.Run(page.path, func(t *testing.T) {
			if page.servers == 0 {
				page.run(t, shared.URL, "HOLDPOINT_TOKEN="+bootstrapToken, "DATABASE_URL="+shared.databaseURL, "HOLDPOINT_DATA_DIR="+shared.dataDir)
				return
			}
			t.Parallel()
			w, port := newWorld(t), holdpoint.FreePort(t)
			page.run(t, fmt.Sprintf("http://127.0.0.1:%d", port), "HOLDPOINT_ADDR=127.0.0.1:"+strconv.Itoa(port),
				"HOLDPOINT_DATA_DIR="+w.dataDir, "HOLDPOINT_DEMO_DATABASE_URL="+w.databaseURL, "DATABASE_URL="+cmp.Or(w.sessionURL, w.databaseURL))
		})
	}
	t.Logf("%d blocks are run, and %v not", ran, notRun)
	if ran < 40 {
		t.Errorf("%d blocks are run, want at least 40", ran)
	}
}

type sharedDemo struct {
	*holdpoint.Process
	databaseURL, dataDir string // for the commands that open the database
}

// sharedServer starts a demo, which is a server with skill servers.
func sharedServer(t *testing.T) sharedDemo {
	t.Helper()
	w := newWorld(t)
	o := w.serverOptions()
	o.Command, o.Port, o.DatabaseURL = "demo", holdpoint.FreePort(t), ""
	o.Env = []string{"HOLDPOINT_DEMO_DATABASE_URL=" + w.databaseURL}
	p := program.Serve(t, o)
	pendingInvoice(t, p, "invoice-2026-001")
	return sharedDemo{p, cmp.Or(w.sessionURL, w.databaseURL), w.dataDir}
}

type documentedPage struct {
	path    string // below the repository
	blocks  []documentedBlock
	servers int
}

// documentedBlock is a block in a page, for the shell.
type documentedBlock struct {
	line    int
	options map[string]string // of the info string
	text    string
	output  []string // lines
}

func (b documentedBlock) runs() bool { return b.options["not-run"] == "" }

// readDocumentation returns the pages that have blocks for the shell.
func readDocumentation(t *testing.T) []*documentedPage {
	t.Helper()
	paths := []string{"README.md"}
	err := filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, strings.TrimPrefix(path, "../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var pages []*documentedPage
	for _, path := range paths {
		source, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		page := &documentedPage{path: path}
		if err := page.addBlocks(source); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if len(page.blocks) > 0 {
			pages = append(pages, page)
		}
	}
	return pages
}

var infoOption = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)

func (p *documentedPage) addBlocks(source []byte) error {
	document := goldmark.DefaultParser().Parse(text.NewReader(source))
	return ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		fence, ok := node.(*ast.FencedCodeBlock)
		if !ok || !entering || fence.Info == nil || fence.Lines().Len() == 0 {
			return ast.WalkContinue, nil
		}
		language, info, _ := strings.Cut(string(fence.Info.Value(source)), " ")
		content := string(fence.Lines().Value(source))
		switch {
		case language == "sh":
			block := documentedBlock{line: 1 + bytes.Count(source[:fence.Lines().At(0).Start], []byte("\n")), options: map[string]string{}, text: content}
			for _, option := range infoOption.FindAllStringSubmatch(info, -1) {
				if !slices.Contains([]string{"server", "background", "until", "not-run"}, option[1]) {
					return ast.WalkStop, fmt.Errorf("line %d: unknown option %s", block.line, option[1])
				}
				block.options[option[1]] = option[2]
				if option[1] == "server" {
					p.servers++
				}
			}
			p.blocks = append(p.blocks, block)
		case info == "output" && len(p.blocks) > 0:
			p.blocks[len(p.blocks)-1].output = strings.Split(strings.TrimSpace(content), "\n")
		}
		return ast.WalkContinue, nil
	})
}

// run runs the blocks of a page in a folder of its own.
func (p *documentedPage) run(t *testing.T, url string, env ...string) {
	t.Helper()
	testdata, err := filepath.Abs("testdata/documented")
	if err != nil {
		t.Fatal(err)
	}
	prelude, err := os.ReadFile(filepath.Join(testdata, strings.ReplaceAll(strings.TrimSuffix(p.path, ".md"), "/", "-")+".sh"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	folder, printed := t.TempDir(), t.TempDir()
	script := strings.NewReplacer(
		"http://127.0.0.1:8080", url, "http://localhost:8080", url, "https://holdpoint.example.com", url, "/usr/local/bin/holdpoint", "holdpoint",
		"https://mcp.example.com/mcp", url+"/demo/skills/inbox/mcp", "/tmp/shared", folder+"/shared",
	).Replace(p.script(string(prelude)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = folder
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(program.Path) + ":" + os.Getenv("PATH"), "HOME=" + folder, "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0", "PAGER=cat",
		"HOLDPOINT_URL=" + url, "PRINTED=" + printed, "TESTDATA=" + testdata,
	}, env...)
	// The servers and whatever else still runs are killed with the shell.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	ended := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // none may be left
	}
	if ctx.Err() != nil {
		ended = ctx.Err()
	}
	last := readPrinted(t, printed, "last")
	for n, block := range p.blocks {
		if !block.runs() {
			continue
		}
		output := strings.ReplaceAll(readPrinted(t, printed, strconv.Itoa(n)), url, "http://127.0.0.1:8080")
		if ended != nil && last == strconv.Itoa(n) {
			t.Errorf("%s:%d: %v\n%s%s", p.path, block.line, ended, block.text, output)
			return
		}
		if err := checkPrinted(block.output, output); err != nil {
			t.Errorf("%s:%d: %v\n%s%s", p.path, block.line, err, block.text, output)
		}
		if strings.Contains(output, "WARNING: DATA RACE") {
			t.Errorf("%s:%d: a data race\n%s", p.path, block.line, output)
		}
	}
	if ended != nil {
		t.Errorf("%s: before its first block: %v\n%s", p.path, ended, readPrinted(t, printed, "prelude"))
	}
}

func readPrinted(t *testing.T, folder, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

// script returns the page as a script. It writes what each block prints to a file of that number, and the last block's number to "last".
func (p *documentedPage) script(prelude string) string {
	var b strings.Builder
	b.WriteString("exec </dev/null >$PRINTED/prelude 2>&1\nset -euo pipefail\n. $TESTDATA/common.sh\n" + prelude + "\nbackground=()\n")
	for n, block := range p.blocks {
		if !block.runs() {
			continue
		}
		text := standIn.ReplaceAllStringFunc(block.text, func(word string) string {
			if strings.Contains(prelude, "find_"+word+"()") {
				return "$(find_" + word + ")"
			}
			return word
		})
		_, isServer := block.options["server"]
		_, isBackground := block.options["background"]
		fmt.Fprintf(&b, "printf %d >$PRINTED/last\n", n)
		if !isServer && !isBackground {
			fmt.Fprintf(&b, "exec >$PRINTED/%d 2>&1\n%s", n, text)
			continue
		}
		fmt.Fprintf(&b, "{\n%s} >$PRINTED/%d 2>&1 &\n", text, n)
		if isBackground {
			fmt.Fprintf(&b, "background+=(%d:$!)\n", n)
		}
		fmt.Fprintf(&b, "await_text %d $! %q\n", n, block.options["until"])
	}
	b.WriteString("for job in \"${background[@]}\"; do printf ${job%:*} >$PRINTED/last; wait ${job#*:}; done\n")
	return b.String()
}

var standIn = regexp.MustCompile(`\b[A-Za-z_]{2,}\b`)

// checkPrinted looks for lines in an output, in their order. White space counts as one space.
func checkPrinted(want []string, output string) error {
	lines := strings.Split(output, "\n")
	for _, line := range want {
		words := strings.Join(strings.Fields(line), " ")
		form := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(words), "…", ".*") + "$")
		at := slices.IndexFunc(lines, func(l string) bool { return form.MatchString(strings.Join(strings.Fields(l), " ")) })
		if at < 0 {
			return fmt.Errorf("it does not print %q after the lines before", line)
		}
		lines = lines[at+1:]
	}
	return nil
}
