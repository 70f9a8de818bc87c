package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// marker begins a text whose arrival is noted; what follows is its number.
const marker = "arrives-"

// arrivals are when marked calls came in, before anything was made of them.
type arrivals struct {
	mu   sync.Mutex
	seen map[string][]int64 // by number: Unix nanoseconds, one for each time it came
}

// serveSkill is the skill server: the official SDK's, stateful, answering with JSON, with one
// tool. It says its address, and ends when its parent is gone.
func serveSkill(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // it ends with the parent
		cancel()
	}()
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Says what it was told."}, echo)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true})
	noted := &arrivals{seen: make(map[string][]int64)}
	mux := http.NewServeMux()
	mux.Handle("/mcp", noted.note(handler))
	mux.HandleFunc("GET /arrivals", noted.list)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve skill: %w", err)
	}
	fmt.Fprintln(stdout, listener.Addr())
	serving := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = serving.Close() })
	if err := serving.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve skill: %w", err)
	}
	return nil
}

// said is the tool's input.
type said struct {
	Text string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in said) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
}

// note stamps a request as it comes, and passes it on.
func (a *arrivals) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now().UnixNano()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, rest, found := bytes.Cut(body, []byte(marker)); found {
			number := rest[:max(0, bytes.IndexByte(rest, ' '))]
			a.mu.Lock()
			a.seen[string(number)] = append(a.seen[string(number)], at)
			a.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func (a *arrivals) list(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := json.NewEncoder(w).Encode(a.seen); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// marked is a text of a length that says its number.
func marked(number, length int) string { return filled(marker+strconv.Itoa(number)+" ", length) }

func filled(start string, length int) string {
	const words = "the quick brown fox jumps over the lazy dog "
	text := []byte(start)
	for len(text) < length {
		text = append(text, words...)
	}
	return string(text[:length])
}
