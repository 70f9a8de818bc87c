package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/holdpoint/holdpoint/internal/client"
)

// startServer starts a server that answers every request in the same way.
func startServer(status int, contentType, body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
}

// Example lists the calls that wait for a decision.
func Example() {
	server := startServer(http.StatusOK, "application/json",
		`{"items":[{"id":"0198c1de","agent":"billing","skill":"files","tool":"write_file","status":"pending"}],"next_cursor":null}`)
	defer server.Close()

	api, err := client.New(client.Config{URL: server.URL, Token: "the token of a reviewer"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pending, err := client.Value(api.ListApprovals(context.Background(), client.ListApprovalsQuery{Status: "pending"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range pending.Items {
		fmt.Printf("%s wants %s: %s\n", a.Agent, a.Skill, a.Tool)
	}
	// Output: billing wants files: write_file
}

// A refused request returns a Problem with a stable code.
func ExampleProblem() {
	server := startServer(http.StatusConflict, "application/problem+json",
		`{"status":409,"title":"Conflict","code":"digest_mismatch","detail":"the digest is stale: fetch the approval again and review it"}`)
	defer server.Close()

	api, err := client.New(client.Config{URL: server.URL, Token: "the token of a reviewer"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = api.Approve(context.Background(), "0198c1de", client.ApproveRequest{Digest: "5f0c"})
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		fmt.Println(problem.Status, problem.Code)
	}
	// Output: 409 digest_mismatch
}

// Follow a conversation until the agent has answered.
func ExampleClient_Follow() {
	server := startServer(http.StatusOK, "text/event-stream",
		"id: 2\nevent: assistant\ndata: {\"seq\":2,\"assistant\":{\"text\":\"Filed.\"}}\n\nevent: state\ndata: {\"status\":\"idle\"}\n\n")
	defer server.Close()

	api, err := client.New(client.Config{URL: server.URL, Token: "the key of an agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	answered := errors.New("answered")
	err = api.Follow(context.Background(), client.Following{Conversation: "0198c1de", OnEvent: func(e client.StreamEvent) error {
		fmt.Println(e.Name, string(e.Data))
		if e.Name == client.EventState {
			return answered
		}
		return nil
	}})
	fmt.Println(errors.Is(err, answered))
	// Output:
	// assistant {"seq":2,"assistant":{"text":"Filed."}}
	// state {"status":"idle"}
	// true
}
