// Package relay has what the tests' proxies share.
package relay

import (
	"bytes"
	"io"
	"net/http"
)

// Whole reads each request to its end before next, a [net/http/httputil.ReverseProxy], passes it on. The server closes
// the request's body as soon as an answer begins; a transport that has not seen the body's end by then takes that for a
// fault, closes its connection, and the answer breaks off in the middle.
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
