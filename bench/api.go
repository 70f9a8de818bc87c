package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/client"
)

// newAPI makes a client of the JSON API with a credential.
func (s *stage) newAPI(credential string) (*client.Client, error) {
	return client.New(client.Config{URL: "http://" + s.addr, Token: credential, Version: "bench"})
}

// get fetches a path that is not in the API, as an operator.
func (s *stage) get(ctx context.Context, addr, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("HTTP %d: %s", response.StatusCode, text)
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return text, nil
}

// readMetrics returns the server's metrics without labels, by name.
func (s *stage) readMetrics(ctx context.Context) (map[string]float64, error) {
	text, err := s.get(ctx, s.addr, "/metrics")
	if err != nil {
		return nil, err
	}
	found := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(line, "#") {
			found[name] = number
		}
	}
	return found, nil
}
