package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	renderer "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// site is the documentation as files of a static web site. Its keys are paths that are relative to the site's root.
type site struct {
	source fs.FS
	pages  map[string]*page // by the path of the Markdown file
	order  []*page          // as they are first linked, starting at README.md
	files  map[string][]byte
	broken []error
}

// page is a Markdown file.
type page struct {
	Path, Target string // README.md, index.html
	Title        string
	Body         template.HTML
	Sections     []section
	anchors      map[string]bool
}

// section is a part of a page that the search finds.
type section struct {
	Page    string `json:"page"` // its target with the heading's anchor
	Title   string `json:"title"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// buildSite renders README.md, everything that it links to within the repository, and so on. Its error names all links that lead nowhere.
func buildSite(source fs.FS) (map[string][]byte, error) {
	s := &site{source: source, pages: map[string]*page{}, files: map[string][]byte{}}
	s.addPage("README.md")
	for i := 0; i < len(s.order); i++ { //nolint:intrange // rewriting links adds pages
		p := s.order[i]
		p.Body = template.HTML(s.rewriteLinks(p, string(p.Body))) //nolint:gosec // G203: the project's own files
	}
	if err := s.writePages(); err != nil {
		return nil, err
	}
	return s.files, errors.Join(s.broken...)
}

// addPage parses a Markdown file. It returns nil if there is none.
func (s *site) addPage(name string) *page {
	if known, ok := s.pages[name]; ok {
		return known
	}
	source, err := fs.ReadFile(s.source, name)
	if err != nil {
		return nil
	}
	p := &page{Path: name, Target: targetOf(name), anchors: map[string]bool{}}
	s.pages[name] = p
	s.order = append(s.order, p)
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithUnsafe()), // pictures in README.md are HTML
	)
	document := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{used: p.anchors}))))
	p.addSections(document, source)
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, document); err != nil {
		s.broken = append(s.broken, fmt.Errorf("%s: %w", name, err))
	}
	p.Body = template.HTML(body.String()) //nolint:gosec // G203: the project's own files
	return p
}

// targetOf returns the path of a Markdown file's page.
func targetOf(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// addSections collects the text below each heading.
func (p *page) addSections(document ast.Node, source []byte) {
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		if heading, ok := node.(*ast.Heading); ok {
			anchor, _ := heading.AttributeString("id")
			id, _ := anchor.([]byte)
			words := plainText(node, source)
			p.Title = cmp.Or(p.Title, words)
			p.Sections = append(p.Sections, section{Page: p.Target + "#" + string(id), Title: p.Title, Heading: words})
			continue
		}
		if n := len(p.Sections); n > 0 {
			p.Sections[n-1].Text = strings.TrimSpace(p.Sections[n-1].Text + " " + plainText(node, source))
		}
	}
}

func plainText(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		}
		if !entering && n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// anchors makes the ids of headings as GitHub does, so that the same links work there.
type anchors struct{ used map[string]bool }

func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, string(value))
	id := name
	for n := 1; a.used[id]; n++ {
		id = fmt.Sprintf("%s-%d", name, n)
	}
	a.used[id] = true
	return []byte(id)
}

func (a *anchors) Put(value []byte) { a.used[string(value)] = true }

var linkAttribute = regexp.MustCompile(`(href|src|srcset)="([^"]*)"`)

// rewriteLinks lets the links of a page lead to the pages and files of the site.
func (s *site) rewriteLinks(p *page, body string) string {
	return linkAttribute.ReplaceAllStringFunc(body, func(attribute string) string {
		parts := linkAttribute.FindStringSubmatch(attribute)
		link := html.UnescapeString(parts[2])
		u, err := url.Parse(link)
		if err == nil && (u.IsAbs() || u.Host != "") {
			return attribute
		}
		if err == nil {
			err = s.followLink(p, u)
		}
		if err != nil {
			s.broken = append(s.broken, fmt.Errorf("%s: link to %s: %w", p.Path, link, err))
			return attribute
		}
		return fmt.Sprintf(`%s="%s"`, parts[1], html.EscapeString(u.String()))
	})
}

// followLink adds what a relative link leads to, and changes the link from the file in the repository to that in the site.
func (s *site) followLink(from *page, u *url.URL) error {
	to, name := from, from.Path
	if u.Path != "" {
		name = path.Join(path.Dir(from.Path), u.Path)
		info, err := fs.Stat(s.source, name)
		switch {
		case err != nil:
			return errors.New("there is no such file")
		case info.IsDir():
			u.Path = path.Join(u.Path, "index.html")
			return s.addFolder(name)
		case path.Ext(name) != ".md":
			return s.addFile(name)
		}
		to = s.addPage(name)
		u.Path = relativePath(from.Target, to.Target)
	}
	if u.Fragment != "" && !to.anchors[u.Fragment] {
		return fmt.Errorf("%s has no heading #%s", name, u.Fragment)
	}
	return nil
}

func (s *site) addFile(name string) error {
	content, err := fs.ReadFile(s.source, name)
	s.files[name] = content
	return err
}

// addFolder adds a page that lists the files of a folder, and the files.
func (s *site) addFolder(name string) error {
	entries, err := fs.ReadDir(s.source, name)
	if err != nil || s.files[path.Join(name, "index.html")] != nil {
		return err
	}
	var list strings.Builder
	fmt.Fprintf(&list, "<h1>%s</h1>\n<ul>\n", html.EscapeString(name))
	for _, entry := range entries {
		file := path.Join(name, entry.Name())
		link, title := entry.Name(), entry.Name()
		switch {
		case entry.IsDir():
			continue
		case path.Ext(file) == ".md":
			p := s.addPage(file)
			link, title = path.Base(p.Target), p.Title
		default:
			if err := s.addFile(file); err != nil {
				return err
			}
		}
		fmt.Fprintf(&list, "<li><a href=\"%s\">%s</a></li>\n", html.EscapeString(link), html.EscapeString(title))
	}
	list.WriteString("</ul>\n")
	index := &page{Path: name, Target: path.Join(name, "index.html"), Title: name, Body: template.HTML(list.String())} //nolint:gosec // G203: escaped above
	s.files[index.Target] = []byte{}
	s.pages[name] = index
	return nil
}

// relativePath returns the link from one page of the site to another.
func relativePath(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// pageGroup is a part of the list of pages.
type pageGroup struct {
	Title string
	Pages []*page
}

// groupPages returns the list of pages. It leaves out decisions, whose list is a page.
func (s *site) groupPages() []pageGroup {
	groups := []pageGroup{{Title: "Pages"}, {Title: "Clients"}}
	for _, p := range s.order {
		switch path.Dir(p.Path) {
		case "docs/decisions":
		case "docs/clients":
			groups[1].Pages = append(groups[1].Pages, p)
		default:
			groups[0].Pages = append(groups[0].Pages, p)
		}
	}
	return slices.DeleteFunc(groups, func(g pageGroup) bool { return len(g.Pages) == 0 })
}

// writePages renders all pages with the list of pages, and the index of the search.
func (s *site) writePages() error {
	var sections []section
	for _, p := range s.order {
		sections = append(sections, p.Sections...)
	}
	index, err := json.Marshal(sections)
	if err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	s.files["search.js"] = slices.Concat([]byte("const sections = "), index, []byte(";\n"), []byte(searchScript))
	s.files["site.css"] = []byte(styleSheet)
	groups := s.groupPages()
	for _, p := range s.pages {
		var out bytes.Buffer
		err := pageTemplate.Execute(&out, map[string]any{"Page": p, "Root": relativePath(p.Target, ""), "Groups": groups})
		if err != nil {
			return fmt.Errorf("write %s: %w", p.Target, err)
		}
		s.files[p.Target] = out.Bytes()
	}
	return nil
}
