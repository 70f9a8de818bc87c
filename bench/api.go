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

// postJSON sends a request to the JSON API as an operator and reviewer.
func (s *stage) postJSON(ctx context.Context, path string, body any) ([]byte, error) {
	request, err := s.newRequest(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	return s.sendAsOperator(request)
}

func (s *stage) patchJSON(ctx context.Context, path string, body any) ([]byte, error) {
	request, err := s.newRequest(ctx, http.MethodPatch, path, body)
	if err != nil {
		return nil, err
	}
	return s.sendAsOperator(request)
}

func (s *stage) newRequest(ctx context.Context, method, path string, body any) (*http.Request, error) {
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
	return s.sendAsOperator(request)
}

func (s *stage) sendAsOperator(request *http.Request) ([]byte, error) {
	return s.sendAs(request, s.token)
}

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

// readMetrics returns the server's metrics without labels, by name.
func (s *stage) readMetrics(ctx context.Context) (map[string]float64, error) {
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
