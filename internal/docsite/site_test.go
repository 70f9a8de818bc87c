package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestLinks: each link between the project's own pages leads to a file, and to a heading if it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	files, err := buildSite(os.DirFS("../.."))
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"index.html", "docs/rules.html", "docs/decisions/index.html", "docs/openapi.json", "search.js"} {
		if len(files[name]) == 0 {
			t.Errorf("the site has no %s", name)
		}
	}
}

func TestSite(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{
		"README.md":           {Data: []byte("# Home & more\n\nRead [the guide](docs/a.md#what-it-does) and [all](docs).\n")},
		"docs/a.md":           {Data: []byte("# Guide\n\n## What it does\n\nGates `calls`.\n\n[Home](../README.md) <a href=\"../run.sh\">script</a>\n")},
		"docs/b.md":           {Data: []byte("# Other\n\n[Editor](clients/c.md) [Why](decisions/1.md)\n")},
		"docs/clients/c.md":   {Data: []byte("# Editor\n")},
		"docs/decisions/1.md": {Data: []byte("# Why\n")},
		"run.sh":              {Data: []byte("true\n")},
		"secret.txt":          {Data: []byte("not linked\n")},
	}
	files, err := buildSite(source)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"index.html":      `<a href="docs/a.html#what-it-does">the guide</a> and <a href="docs/index.html">all</a>`,
		"docs/a.html":     `<a href="../index.html">Home</a> <a href="../run.sh">script</a>`,
		"docs/index.html": `<li><a href="b.html">Other</a></li>`,
		"run.sh":          "true",
		"search.js":       `{"page":"docs/a.html#what-it-does","title":"Guide","heading":"What it does","text":"Gates calls. Home script"}`,
	} {
		if !strings.Contains(string(files[name]), want) {
			t.Errorf("%s is\n%s\nwant %s", name, files[name], want)
		}
	}
	_, list, _ := strings.Cut(string(files["docs/clients/c.html"]), "<nav")
	list, _, _ = strings.Cut(list, "</nav>")
	pages, clients, _ := strings.Cut(list, "<summary>Clients</summary>")
	if !strings.Contains(pages, `<a href="../../docs/b.html">Other</a>`) || !strings.Contains(clients, `<a href="../../docs/clients/c.html" aria-current="page">Editor</a>`) ||
		strings.Contains(pages, "Editor") || strings.Contains(list, "Why") {
		t.Errorf("the list of pages is\n%s", list)
	}
	if _, copied := files["secret.txt"]; copied {
		t.Error("a file that no page links to was copied")
	}
}

func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	_, err := buildSite(fstest.MapFS{"README.md": {Data: []byte("# Home\n\n[a](docs/gone.md) [b](#nothing) [c](https://example.com/gone) [d](other.md#here)\n")}, "other.md": {Data: []byte("# There\n")}})
	want := "README.md: link to docs/gone.md: there is no such file\nREADME.md: link to #nothing: README.md has no heading #nothing\nREADME.md: link to other.md#here: other.md has no heading #here"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
