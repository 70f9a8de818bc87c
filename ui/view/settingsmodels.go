package view

// Theme is how the dashboard looks, by the reader's choice.
type Theme string

// The themes. ThemeSystem is what the reader's device says.
const (
	ThemeSystem Theme = ""
	ThemeLight  Theme = "light"
	ThemeDark   Theme = "dark"
)

// scheme is the theme as the color-scheme of a page.
func (t Theme) scheme() string {
	if t == ThemeSystem {
		return "light dark"
	}
	return string(t)
}

// themeMedia says when a page has a theme's colour: always, if the reader chose it.
func themeMedia(chosen, of Theme) string {
	if chosen == of {
		return "all"
	}
	return "(prefers-color-scheme: " + string(of) + ")"
}

// Settings are the reader's own, one part after the other.
type Settings struct {
	Notice   *Notice
	You      []Fact
	Theme    Theme
	Sessions []Session
	Tokens   []TokenRow
	NewToken NewToken
	// How the reader hears of calls while they look elsewhere.
	Notifications Notifications
	Server        []Fact // for operators: how this server runs; nil: the reader is none
}

// Session is a browser that somebody is signed in with.
type Session struct {
	ID      string
	Client  string // as it calls itself; from outside
	Current bool   // the one that asks
	Facts   []Fact
}

// choice is one of a few that exclude each other.
type choice struct {
	value, word string
}

func themes() []choice {
	return []choice{{string(ThemeSystem), "Like the system"}, {string(ThemeLight), "Light"}, {string(ThemeDark), "Dark"}}
}
