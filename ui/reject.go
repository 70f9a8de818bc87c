package ui

import (
	"net/http"
	"slices"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// presets are reasons that reviewers give most often, for the agent to read.
func presets() []string {
	return []string{
		"Wrong target", "Wrong values", "Not needed", "Ask the person first", "Too much at once: do it in smaller steps", "Not now: try again later",
	}
}

func (u *UI) reject(w http.ResponseWriter, r *http.Request) { u.decide(w, r, call.Decision{}) }

// withPreset puts the chosen reason before what was written.
func withPreset(preset, text string) string {
	switch {
	case !slices.Contains(presets(), preset):
		return text
	case text == "":
		return preset + "."
	}
	return preset + ". " + text
}
