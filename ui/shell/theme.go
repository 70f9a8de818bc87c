package shell

import (
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/ui/view"
)

// ThemeCookie holds a reader's theme, so that the page has it before the browser draws anything.
const (
	ThemeCookie = "holdpoint-theme"
	ThemeKept   = 365 * 24 * time.Hour
)

// ThemeOf reads a reader's theme from the cookie.
func ThemeOf(r *http.Request) view.Theme {
	cookie, err := r.Cookie(ThemeCookie)
	if err != nil {
		return view.ThemeSystem
	}
	return Theme(cookie.Value)
}

// Theme reads the name of a theme.
func Theme(text string) view.Theme {
	switch t := view.Theme(text); t {
	case view.ThemeLight, view.ThemeDark:
		return t
	default:
		return view.ThemeSystem
	}
}
