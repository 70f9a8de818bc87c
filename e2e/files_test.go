package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// startHashing starts a skill server that downloads the attachments without a credential and answers with their SHA-256.
func startHashing(t *testing.T) *skill.Raw {
	t.Helper()
	server := &skill.Raw{}
	server.Call = func(w http.ResponseWriter, r *skill.Request) {
		var arguments struct {
			Attachments []struct {
				URL string `json:"url"`
			} `json:"attachments"`
		}
		if err := json.Unmarshal(r.Params.Arguments, &arguments); err != nil || len(arguments.Attachments) != 1 {
			r.Fail(w, -32602, "attachments: must be one")
			return
		}
		status, content, err := fetchURL(arguments.Attachments[0].URL)
		if err != nil || status != http.StatusOK {
			r.Fail(w, -32603, "the file cannot be had")
			return
		}
		r.Answer(w, `{"content":[{"type":"text","text":"`+sumOf(content)+`"}]}`)
	}
	return server.Serve(t)
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func fetchURL(url string) (status int, content []byte, err error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	return response.StatusCode, content, err
}

// TestAttachment: an agent's file reaches the skill's server only after approval.
func TestAttachment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := startHashing(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(server.URL, ""))
	agent := w.newAgent(p, "worker")

	content := []byte(strings.Repeat("an invoice, line by line\n", 50_000))
	path := filepath.Join(t.TempDir(), "invoice.txt")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fileID := strings.TrimSpace(newCLI(p, agent.Key).Must(t, "files", "upload", path))
	call := newStubborn(agent, p)
	done := call.beginCall(t.Context(), "counting__record", `{"n":1,"attachments":[{"file_id":"`+fileID+`"}]}`)
	awaitPending(t, p, 1)
	shown := pendingApprovals(t, p)[0]
	var arguments struct {
		Attachments []struct {
			URL    string `json:"url"`
			SHA256 string `json:"sha256"`
		} `json:"attachments"`
	}
	if err := json.Unmarshal(shown.Arguments, &arguments); err != nil || len(arguments.Attachments) != 1 || arguments.Attachments[0].SHA256 != sumOf(content) {
		t.Fatalf("the reviewer is shown %s", shown.Arguments)
	}
	if status, _, err := fetchURL(arguments.Attachments[0].URL); err != nil || status != http.StatusNotFound {
		t.Errorf("before the decision the URL answers %d, %v", status, err)
	}

	// The reviewer opens the file.
	saved := filepath.Join(t.TempDir(), "saved.txt")
	reviewer := newCLI(p, bootstrapToken)
	if said := reviewer.Must(t, "approvals", "show", shown.ID); !strings.Contains(said, "invoice.txt") || !strings.Contains(said, sumOf(content)) {
		t.Errorf("the approval is shown as %s", said)
	}
	reviewer.Must(t, "files", "download", shown.ID, fileID, "--output", saved)
	if got, err := os.ReadFile(saved); err != nil || sumOf(got) != sumOf(content) {
		t.Errorf("the reviewer got %d bytes, %v", len(got), err)
	}

	approvePending(t, p)
	if got := <-done; got.err != nil || got.answer.Text() != sumOf(content) {
		t.Errorf("the agent was told %s, %v", got.answer.Raw, got.err)
	}

	// An unknown file or another agent's file is a request error.
	answer, err := agent.CallTool(t.Context(), "counting__record", `{"n":2,"attachments":[{"file_id":"0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11"}]}`)
	if err != nil || answer.Error == nil || answer.Error.Code != -32602 ||
		!strings.HasPrefix(answer.Error.Message, "/params/arguments/attachments/0/file_id: must be") {
		t.Errorf("a missing file: %+v, %v", answer.Error, err)
	}
	if server.Count("2") > 0 {
		t.Error("a call with a missing file reached the server")
	}
}
