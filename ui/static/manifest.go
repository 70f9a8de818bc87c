package static

import (
	"encoding/json"
	"net/http"
)

// ManifestPath is the path of the manifest, with which browsers install the dashboard as an app.
const ManifestPath = "/manifest.webmanifest"

type manifest struct {
	Name       string         `json:"name"`
	ShortName  string         `json:"short_name"`
	ID         string         `json:"id"`
	StartURL   string         `json:"start_url"`
	Scope      string         `json:"scope"`
	Display    string         `json:"display"`
	Theme      string         `json:"theme_color"`
	Background string         `json:"background_color"`
	Icons      []manifestIcon `json:"icons"`
}

type manifestIcon struct {
	Source  string `json:"src"`
	Sizes   string `json:"sizes"`
	Type    string `json:"type"`
	Purpose string `json:"purpose"`
}

// Manifest serves the manifest. It is read without a session.
func (a *Assets) Manifest() http.Handler {
	icon := func(file, sizes string) manifestIcon {
		return manifestIcon{Source: a.URL(file), Sizes: sizes, Type: chooseType(file), Purpose: "any maskable"}
	}
	content, err := json.Marshal(manifest{
		Name: "Holdpoint", ShortName: "Holdpoint", ID: "/", StartURL: "/", Scope: "/", Display: "standalone",
		Theme: "#0d5c63", Background: "#f5f7f7",
		Icons: []manifestIcon{icon(Icon192, "192x192"), icon(Icon512, "512x512")},
	})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/manifest+json")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(content) // the client may be gone
	})
}
