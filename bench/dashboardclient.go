package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// dashboardClient uses the dashboard as a signed-in browser does.
type dashboardClient struct {
	addr    string
	cookies []*http.Cookie
	client  *http.Client // with its own connections
}

// pageResponse is a response and its cost.
type pageResponse struct {
	firstByte time.Duration
	weight    int    // compressed bytes
	body      []byte // uncompressed
}

// signIn signs in with a token, as the form of the dashboard does.
func (s *stage) signIn(ctx context.Context, token string) (*dashboardClient, error) {
	d := &dashboardClient{addr: s.addr, client: &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	form := strings.NewReader(url.Values{"token": {token}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/sign-in", form)
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := d.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	d.cookies = response.Cookies()
	if response.StatusCode != http.StatusSeeOther || len(d.cookies) == 0 {
		return nil, fmt.Errorf("sign in: HTTP %d, %d cookies", response.StatusCode, len(d.cookies))
	}
	return d, nil
}

func (d *dashboardClient) close() { d.client.CloseIdleConnections() }

func (d *dashboardClient) newRequest(ctx context.Context, path string, part bool) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addr+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	for _, c := range d.cookies {
		request.AddCookie(c)
	}
	request.Header.Set("Accept-Encoding", "gzip")
	if part {
		request.Header.Set("HX-Request", "true")
	}
	return request, nil
}

// fetchPage fetches a page, or only the part that renews itself.
func (d *dashboardClient) fetchPage(ctx context.Context, path string, part bool) (pageResponse, error) {
	var began, first time.Time
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Now() }}
	request, err := d.newRequest(httptrace.WithClientTrace(ctx, trace), path, part)
	if err != nil {
		return pageResponse{}, err
	}
	began = time.Now()
	response, err := d.client.Do(request)
	if err != nil {
		return pageResponse{}, fmt.Errorf("GET %s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	counted := &byteCounter{in: response.Body}
	var in io.Reader = counted
	if response.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(counted); err != nil {
			return pageResponse{}, fmt.Errorf("GET %s: %w", path, err)
		}
	}
	body, err := io.ReadAll(in)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d", response.StatusCode)
	}
	if err != nil {
		return pageResponse{}, fmt.Errorf("GET %s: %w", path, err)
	}
	return pageResponse{first.Sub(began), counted.n, body}, nil
}

// byteCounter counts the bytes that are read through it.
type byteCounter struct {
	in io.Reader
	n  int
}

func (c *byteCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += n
	return n, err
}

// watchEvents follows the stream of events and passes on each state of the queue until the context ends.
func (d *dashboardClient) watchEvents(ctx context.Context, open func(), heard func(state string)) error {
	request, err := d.newRequest(ctx, "/events", false)
	if err != nil {
		return err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return fmt.Errorf("GET /events: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /events: HTTP %d", response.StatusCode)
	}
	open()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		var pulse struct {
			State string `json:"state"`
		}
		if err := json.Unmarshal([]byte(data), &pulse); err != nil {
			return fmt.Errorf("GET /events: %w", err)
		}
		heard(pulse.State)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("GET /events: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}
