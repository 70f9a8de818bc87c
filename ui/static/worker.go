package static

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// WorkerPath is the path of the service worker: at the root, so it controls all pages, and constant, so browsers find updates.
const WorkerPath = "/sw.js"

// Worker serves the service worker, with the texts that it shows in a language. Browsers compare it with theirs, byte by byte.
func Worker(language string, texts map[string]map[string]string) (http.Handler, error) {
	script, err := files.ReadFile("worker/sw.js")
	if err != nil {
		return nil, fmt.Errorf("load service worker: %w", err)
	}
	constants, err := json.Marshal(texts)
	if err != nil {
		return nil, fmt.Errorf("encode texts of service worker: %w", err)
	}
	script = slices.Concat([]byte("const language = "+strconv.Quote(language)+", texts = "), constants, []byte(";\n"), script)
	digest := sha256.Sum256(script)
	tag := `"` + hex.EncodeToString(digest[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(script))
	}), nil
}
