package view

import "context"

func windowTitle(ctx context.Context, p Page) string {
	title := p.Title.In(ctx) + " · Holdpoint"
	if p.Pending > 0 {
		return "(" + Thousands(p.Pending) + ") " + title
	}
	return title
}

func (p Page) favicon() string {
	if p.Pending > 0 {
		return p.Assets.MarkWaiting
	}
	return p.Assets.Mark
}

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
