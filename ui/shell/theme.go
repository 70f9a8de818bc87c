package shell

import (
	"net/http"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ThemeCookie and LanguageCookie hold a reader's theme and language, so that the page has them before the browser draws anything.
const (
	ThemeCookie    = "holdpoint-theme"
	LanguageCookie = "holdpoint-language"
	ChoiceKept     = 365 * 24 * time.Hour
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

// LanguageOf reads the language that a reader chose from the cookie, or returns "" for the browser's.
func LanguageOf(r *http.Request) string {
	cookie, err := r.Cookie(LanguageCookie)
	if err != nil {
		return ""
	}
	return Language(cookie.Value)
}

// Language returns a language if there is one with this tag, otherwise "".
func Language(tag string) string {
	if !slices.ContainsFunc(text.Languages(), func(l text.Language) bool { return l.Tag == tag }) {
		return ""
	}
	return tag
}
