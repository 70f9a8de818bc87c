// Command docsite renders README.md and docs as a static web site with a search, and checks the links between the pages.
//
//	go run ./internal/docsite FOLDER
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

//go:embed page.html
var pageText string

//go:embed search.js
var searchScript string

//go:embed site.css
var styleSheet string

var pageTemplate = template.Must(template.New("page").Parse(pageText)) //nolint:gochecknoglobals // parsed once

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: docsite FOLDER")
	}
	files, err := buildSite(os.DirFS("."))
	if err != nil {
		return err
	}
	for name, content := range files {
		target := filepath.Join(args[0], filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // G301: for a web server
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil { //nolint:gosec // G306: for a web server
			return err
		}
	}
	_, err = fmt.Fprintf(os.Stdout, "Wrote %d files. Open %s.\n", len(files), filepath.Join(args[0], "index.html"))
	return err
}
