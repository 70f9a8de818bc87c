package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Upload is where the API says that a file is uploaded.
type Upload struct {
	FileID  string            `json:"file_id"`
	URL     string            `json:"upload_url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// Put uploads content of some size. No credential goes along: the address is one.
func (c *Client) Put(ctx context.Context, to Upload, content io.Reader, size int64) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, to.Method, to.URL, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.ContentLength = size
	if size == 0 {
		request.Body = http.NoBody
	}
	for name, value := range to.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "holdpoint/"+c.Version)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := readAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, problemOf(response, text)
	}
	return text, nil
}
