package view

import (
	"context"
	"strconv"

	"github.com/holdpoint/holdpoint/ui/text"
)

func windowTitle(ctx context.Context, p Page) string {
	title := p.Title.In(ctx) + " · Holdpoint"
	if p.Pending > 0 {
		return "(" + text.Number(p.Pending).In(ctx) + ") " + title
	}
	return title
}

// refresh returns the content of the element by which a page replaces itself without JavaScript.
func (p Page) refresh() string {
	content := strconv.Itoa(p.RefreshAfter)
	if p.RefreshURL != "" {
		content += "; url=" + p.RefreshURL
	}
	return content
}

func (p Page) faviconURL() string {
	if p.Pending > 0 {
		return p.Assets.MarkWaiting
	}
	return p.Assets.Mark
}

// Theme is the color theme that the reader chose.
type Theme string

// The themes. ThemeSystem follows the reader's device.
const (
	ThemeSystem Theme = ""
	ThemeLight  Theme = "light"
	ThemeDark   Theme = "dark"
)

// colorScheme returns the color-scheme of a page.
func (t Theme) colorScheme() string {
	if t == ThemeSystem {
		return "light dark"
	}
	return string(t)
}

// themeMedia returns the media query of a theme's color, which always applies if the reader chose the theme.
func themeMedia(chosen, of Theme) string {
	if chosen == of {
		return "all"
	}
	return "(prefers-color-scheme: " + string(of) + ")"
}
