// Package static serves the dashboard's styles, scripts and marks, which are part of the program. Their path has a digest of all
// files, so browsers cache them forever and never mix two versions, and modules find each other.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed css/*.css *.js *.svg *.png vendor/*.js worker/sw.js
var files embed.FS

// The names of the files that pages refer to, for [Assets.URL].
const (
	CSS         = "holdpoint.css" // of all parts in css/
	JS          = "holdpoint.js"
	Push        = "push.js" // of the settings
	HTMX        = "vendor/htmx-4.0.1.min.js"
	HTMXCSP     = "vendor/hx-csp-4.0.1.min.js"
	Mark        = "mark.svg"
	MarkWaiting = "mark-waiting.svg"
	Icon192     = "icon-192.png" // of the installed app; its margin may be cut off
	Icon512     = "icon-512.png"
)

// Prefix is the path under which assets are served.
const Prefix = "/a/"

type asset struct {
	contentType string
	plain       []byte
	gzipped     []byte
}

// Assets serves the files.
type Assets struct {
	base   string
	byPath map[string]asset
}

// Load returns the files, which are read and compressed once.
func Load() (*Assets, error) { return loadOnce() }

var loadOnce = sync.OnceValues(loadFiles) //nolint:gochecknoglobals // the files are constant

func loadFiles() (*Assets, error) {
	a := &Assets{byPath: make(map[string]asset)}
	names, err := fs.Glob(files, "*.*")
	if err != nil {
		return nil, fmt.Errorf("load assets: %w", err)
	}
	digest := sha256.New()
	contents := make(map[string][]byte)
	if contents[CSS], err = joinStyles(); err != nil {
		return nil, fmt.Errorf("load assets: %w", err)
	}
	_, _ = digest.Write(contents[CSS]) // never fails
	for _, name := range append(names, HTMX, HTMXCSP) {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("load asset: %w", err)
		}
		if path.Ext(name) == ".js" && !strings.HasPrefix(name, "vendor/") {
			content = stripScript(content)
		}
		contents[name] = content
		_, _ = digest.Write(content) // never fails
	}
	a.base = Prefix + hex.EncodeToString(digest.Sum(nil)[:8]) + "/"
	for name, content := range contents {
		gzipped, err := compress(content)
		if err != nil {
			return nil, fmt.Errorf("load asset %s: %w", name, err)
		}
		a.byPath[a.URL(name)] = asset{contentType: chooseType(name), plain: content, gzipped: gzipped}
	}
	return a, nil
}

// newTightener returns a replacer that drops meaningless spaces, and the "&" of nested rules where descendants are meant anyway.
func newTightener() *strings.Replacer {
	return strings.NewReplacer(" { & ", "{", " { ", "{", " {", "{", "; }", "}", " }", "}", "; & ", ";", "; ", ";", ", ", ",", ": ", ":", " > ", ">", " ~ ", "~")
}

// joinStyles joins all style sheets in the order of their names, without meaningless white space. The first sheet declares the
// order of the layers.
func joinStyles() ([]byte, error) {
	parts, err := fs.Glob(files, "css/*.css")
	if err != nil {
		return nil, err
	}
	var sheet bytes.Buffer
	tightener := newTightener()
	for _, name := range parts {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(content) { // each ends with a sign, which separates it from the next
			if bytes.HasPrefix(bytes.TrimLeft(line, "\t"), []byte("/*")) {
				continue // a comment
			}
			_, _ = tightener.WriteString(&sheet, string(bytes.TrimPrefix(bytes.Trim(line, "\t\n"), []byte("& ")))) // never fails
		}
	}
	// A second pass, because the tightener looks at each space once, and at each line alone.
	return []byte(strings.NewReplacer("} & ", "}", "} ", "}", ";}", "}", "}&>", "}>", ",& ", ",", "> ", ">").Replace(sheet.String())), nil
}

// stripScript drops indents and the lines that are only a comment. Line numbers stay, so an error's place is right.
func stripScript(script []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(script) {
		line = bytes.TrimLeft(line, "\t")
		if bytes.HasPrefix(line, []byte("//")) {
			line = []byte("\n")
		}
		_, _ = b.Write(line) // never fails
	}
	return b.Bytes()
}

// chooseType returns the content type of a file. It does not use the machine's tables, which differ.
func chooseType(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	}
	return "application/octet-stream"
}

func compress(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// URL returns the address of a file.
func (a *Assets) URL(name string) string { return a.base + path.Base(name) }

// ServeHTTP serves the files under [Prefix].
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := a.byPath[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", found.contentType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Encoding")
	body := found.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = found.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}
