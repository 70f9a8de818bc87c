package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/holdpoint/holdpoint/runtime"
)

// readModelDefaults returns the model servers that the environment names, in the variables that the providers' own programs read.
func readModelDefaults(getenv func(string) string) (runtime.ModelDefaults, error) {
	defaults := runtime.ModelDefaults{}
	for provider, prefix := range map[string]string{"openai": "OPENAI", "anthropic": "ANTHROPIC"} {
		server := runtime.ModelServer{BaseURL: strings.TrimSpace(getenv(prefix + "_BASE_URL")), APIKey: strings.TrimSpace(getenv(prefix + "_API_KEY"))}
		if server.BaseURL != "" {
			u, err := url.Parse(server.BaseURL)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
				return nil, fmt.Errorf("%s_BASE_URL: must be http:// or https:// and a host, without a user or password", prefix)
			}
		}
		if server != (runtime.ModelServer{}) {
			defaults[provider] = server
		}
	}
	return defaults, nil
}
