// Package static owns the files that the dashboard's pages load: styles, scripts and
// marks. They are part of the program and served under names that hold their digest, so that a
// browser keeps them for ever and never mixes two versions.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed holdpoint.css holdpoint.js mark.svg mark-waiting.svg vendor/*.js
var files embed.FS

// The names of the files, for [Assets.URL].
const (
	CSS         = "holdpoint.css"
	JS          = "holdpoint.js"
	HTMX        = "vendor/htmx-4.0.1.min.js"
	HTMXCSP     = "vendor/hx-csp-4.0.1.min.js"
	Mark        = "mark.svg"
	MarkWaiting = "mark-waiting.svg"
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
	byPath map[string]asset
	urls   map[string]string
}

// Load reads the files that are part of the program.
func Load() (*Assets, error) {
	a := &Assets{byPath: make(map[string]asset), urls: make(map[string]string)}
	for _, name := range []string{CSS, JS, HTMX, HTMXCSP, Mark, MarkWaiting} {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("load asset: %w", err)
		}
		gzipped, err := compress(content)
		if err != nil {
			return nil, fmt.Errorf("load asset %s: %w", name, err)
		}
		sum := sha256.Sum256(content)
		url := Prefix + hex.EncodeToString(sum[:8]) + "/" + path.Base(name)
		a.urls[name] = url
		a.byPath[url] = asset{contentType: contentType(name), plain: content, gzipped: gzipped}
	}
	return a, nil
}

// contentType does not ask the machine's tables, which differ.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
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

// URL is where the file is served; empty for one that does not exist.
func (a *Assets) URL(name string) string { return a.urls[name] }

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
