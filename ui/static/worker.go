package static

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"
)

// WorkerPath is where the service worker is served: at the root, so that it is in charge of all pages, and always
// there, so that browsers find what follows it.
const WorkerPath = "/sw.js"

// Worker serves the service worker. Browsers compare it with theirs, byte by byte.
func Worker() (http.Handler, error) {
	script, err := files.ReadFile("worker/sw.js")
	if err != nil {
		return nil, fmt.Errorf("load service worker: %w", err)
	}
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
