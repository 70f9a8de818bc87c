package shell

import (
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/internal/query"
)

// ZoneCookie holds a reader's time zone. The script sets it.
const ZoneCookie = "holdpoint_zone"

// ZoneOf reads a reader's time zone from the cookie. Without a valid one it is UTC.
func ZoneOf(r *http.Request) *time.Location {
	if cookie, err := r.Cookie(ZoneCookie); err == nil {
		if zone, err := query.ParseZone(cookie.Value); err == nil {
			return zone
		}
	}
	return time.UTC
}
