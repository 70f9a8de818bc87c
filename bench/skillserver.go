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
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// marker begins a text whose arrival is recorded. A number and a space follow.
const marker = "arrives-"

// arrivals records when marked calls arrive, before they are parsed.
type arrivals struct {
	mu   sync.Mutex
	seen map[string][]int64 // by number: Unix nanoseconds, one for each time it came
}

// serveSkill runs the skill server: the official SDK, stateful, JSON responses, one tool, and the skills of a wide house. It prints its
// address, and ends with its parent process. With the argument "stdio" it serves its standard input and output instead.
func serveSkill(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, cacheableOptions())
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Returns the text."}, echoText)
	if slices.Contains(args, "stdio") {
		return server.Run(ctx, &mcp.StdioTransport{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // it ends with the parent
		cancel()
	}()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true})
	noted := &arrivals{seen: make(map[string][]int64)}
	mux := http.NewServeMux()
	mux.Handle("/mcp", noted.recordArrivals(handler))
	mux.HandleFunc("GET /arrivals", noted.serveTimes)
	serveWide(mux)
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

// echoInput is the input of the tool.
type echoInput struct {
	Text string `json:"text"`
}

func echoText(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
}

// recordArrivals records the time of a marked request and passes the request on.
func (a *arrivals) recordArrivals(next http.Handler) http.Handler {
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

func (a *arrivals) serveTimes(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := json.NewEncoder(w).Encode(a.seen); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// markedText returns a text of a length that starts with the marker and a number.
func markedText(number, length int) string {
	return filledText(marker+strconv.Itoa(number)+" ", length)
}

func filledText(start string, length int) string {
	const words = "the quick brown fox jumps over the lazy dog "
	text := []byte(start)
	for len(text) < length {
		text = append(text, words...)
	}
	return string(text[:length])
}
