// Package relay owns the code that the proxies of tests share.
package relay

import (
	"bytes"
	"io"
	"net/http"
)

// Whole reads each request to its end before next, a [net/http/httputil.ReverseProxy], forwards it. The server closes the body of the
// request when a response begins. If the transport has not read the body by then, it closes its connection, and the response breaks
// off.
func Whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
