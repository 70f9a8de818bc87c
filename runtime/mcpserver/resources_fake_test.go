package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/resource"
)

// fakeResources returns the answers of the test, and records its requests.
type fakeResources struct {
	mu     sync.Mutex
	lists  map[resource.Kind]resource.List
	result string
	err    error

	asked   []asked
	updates chan resource.Change // to every session's stream
	ended   []uuid.UUID
}

type asked struct {
	what, name, arguments string
	who                   resource.Who
	ref                   resource.Reference
	ask                   resource.Ask
}

func (f *fakeResources) List(_ context.Context, who resource.Who, kind resource.Kind) (resource.List, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, asked{what: kind.Method(), who: who})
	return f.lists[kind], f.err
}

func (f *fakeResources) Read(_ context.Context, who resource.Who, uri string, ask resource.Ask) (json.RawMessage, error) {
	return f.answer(asked{what: "read", name: uri, who: who, ask: ask})
}

func (f *fakeResources) Prompt(_ context.Context, who resource.Who, name string, arguments []byte, ask resource.Ask) (json.RawMessage, error) {
	return f.answer(asked{what: "prompt", name: name, arguments: string(arguments), who: who, ask: ask})
}

func (f *fakeResources) Complete(_ context.Context, who resource.Who, ref resource.Reference, ask resource.Ask) (json.RawMessage, error) {
	return f.answer(asked{what: "complete", who: who, ref: ref, ask: ask})
}

func (f *fakeResources) Subscribe(_ context.Context, who resource.Who, uri string) error {
	_, err := f.answer(asked{what: "subscribe", name: uri, who: who})
	return err
}

func (f *fakeResources) Unsubscribe(_ context.Context, who resource.Who, uri string) error {
	_, err := f.answer(asked{what: "unsubscribe", name: uri, who: who})
	return err
}

func (f *fakeResources) Ended(_ context.Context, conversation uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, conversation)
	return nil
}

func (f *fakeResources) Subscribable(_ context.Context, who resource.Who, uri string) (resource.Subscription, error) {
	if uri == "x:denied" {
		return resource.Subscription{}, resource.ErrDenied
	}
	_, err := f.answer(asked{what: "subscribable", name: uri, who: who})
	return resource.Subscription{URI: uri}, err
}

func (f *fakeResources) Follow(_ context.Context, who resource.Who, subscriptions []resource.Subscription) <-chan resource.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, s := range subscriptions {
		names = append(names, s.URI)
	}
	f.asked = append(f.asked, asked{what: "follow", name: strings.Join(names, " "), who: who})
	return f.updates
}

func (f *fakeResources) FollowSession(_ context.Context, who resource.Who) <-chan resource.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, asked{what: "follow session", who: who})
	return f.updates
}

func (f *fakeResources) answer(a asked) (json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, a)
	if f.err != nil {
		return nil, f.err
	}
	return json.RawMessage(f.result), nil
}

// setAnswer sets the result or the error of requests.
func (f *fakeResources) setAnswer(result string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result, f.err, f.asked = result, err, nil
}

// lastRequest returns the last request; zero: there was none.
func (f *fakeResources) lastRequest() asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return asked{}
	}
	return f.asked[len(f.asked)-1]
}
