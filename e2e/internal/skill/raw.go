package skill

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
)

// Raw is a skill server without an SDK, of which tests control every byte. It uses the protocol of 2025-11-25.
type Raw struct {
	*Ledger
	URL string

	// List answers tools/list. Nil: the tool "record".
	List func(w http.ResponseWriter, r *Request)
	// Call answers a recorded tools/call. Nil: a result.
	Call func(w http.ResponseWriter, r *Request)
	// Session returns the ID of a new session. Nil: no sessions.
	Session func() string

	calls sync.Map // the last *Request by n
}

// Header returns a header of the last call with n.
func (s *Raw) Header(n, name string) string {
	if r := s.lastRequest(n); r != nil {
		return r.HTTP.Header.Get(name)
	}
	return ""
}

// Arguments returns the arguments of the last call with n, byte for byte.
func (s *Raw) Arguments(n string) string {
	if r := s.lastRequest(n); r != nil {
		return string(r.Params.Arguments)
	}
	return ""
}

func (s *Raw) lastRequest(n string) *Request {
	found, _ := s.calls.Load(n)
	r, _ := found.(*Request)
	return r
}

// Request is a JSON-RPC request.
type Request struct {
	HTTP   *http.Request   `json:"-"`
	Body   []byte          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Cursor    string          `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

// N returns the bytes of the argument n.
func (r *Request) N() string { return ArgumentN(r.Params.Arguments) }

// RecordTool is the definition of the tool "record".
const RecordTool = `{"name":"record","description":"Records a number.","inputSchema":` + recordSchema + `}`

// Serve starts the server until the test ends.
func (s *Raw) Serve(t testing.TB) *Raw {
	s.Ledger = NewLedger()
	s.URL = serveHandler(t, s, s.Release)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Raw) ServeHTTP(w http.ResponseWriter, h *http.Request) {
	if h.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(h.Body)
	if err != nil {
		return // the client has disconnected
	}
	r := &Request{HTTP: h, Body: body}
	if err := json.Unmarshal(body, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.serveRequest(w, r)
}

func (s *Raw) serveRequest(w http.ResponseWriter, r *Request) {
	switch {
	case r.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case r.Method == "initialize":
		if s.Session != nil {
			w.Header().Set("Mcp-Session-Id", s.Session())
		}
		r.Answer(w, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`)
	case r.Method == "ping":
		r.Answer(w, `{}`)
	case r.Method == "tools/list":
		if s.List != nil {
			s.List(w, r)
			return
		}
		r.Answer(w, `{"tools":[`+RecordTool+`]}`)
	case r.Method == "tools/call":
		s.calls.Store(r.N(), r)
		held := s.Record(r.N())
		if s.Call != nil {
			s.Call(w, r)
			return
		}
		if held != nil {
			<-held
		}
		r.Answer(w, `{"content":[{"type":"text","text":"recorded `+r.N()+`"}]}`)
	default:
		r.Fail(w, -32601, "no such method")
	}
}

// Answer sends a result, byte for byte.
func (r *Request) Answer(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result) // the client may have disconnected
}

// Fail sends a JSON-RPC error.
func (r *Request) Fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, message) // the client may have disconnected
}

// CloseConnection closes the connection without a response.
func CloseConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
