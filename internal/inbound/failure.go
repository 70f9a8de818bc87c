package inbound

import (
	"net/http"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// RetryAfter is when a client may try again while the database is unavailable.
const RetryAfter = 5 * time.Second

// FailureStatus returns the status of the answer to a request that an internal error ended: 503, with the header Retry-After, while the
// database is unavailable, else 500.
func FailureStatus(h http.Header, err error) int {
	if !postgres.IsUnavailable(err) {
		return http.StatusInternalServerError
	}
	h.Set("Retry-After", strconv.Itoa(int(RetryAfter.Seconds())))
	return http.StatusServiceUnavailable
}
