package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// post uses the JSON API as the operator and reviewer that we are.
func (s *stage) post(ctx context.Context, path string, body any) ([]byte, error) {
	request, err := s.request(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	return s.send(request)
}

func (s *stage) patch(ctx context.Context, path string, body any) ([]byte, error) {
	request, err := s.request(ctx, http.MethodPatch, path, body)
	if err != nil {
		return nil, err
	}
	return s.send(request)
}

func (s *stage) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

func (s *stage) get(ctx context.Context, path string) ([]byte, error) {
	return s.getFrom(ctx, s.addr, path)
}

func (s *stage) getFrom(ctx context.Context, addr, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return s.send(request)
}

func (s *stage) send(request *http.Request) ([]byte, error) { return s.sendAs(request, s.token) }

func (s *stage) sendAs(request *http.Request, credential string) ([]byte, error) {
	request.Header.Set("Authorization", "Bearer "+credential)
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
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
	}
	return text, nil
}

// metrics are the server's own, by name; those with labels are left out.
func (s *stage) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := s.get(ctx, "/metrics")
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
