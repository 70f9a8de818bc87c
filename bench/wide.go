package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/client"
)

// A wide house has many skills with many tools each. One agent has almost as many tools as a conversation may have, the others have few.
const (
	wideSkills  = 500
	wideTools   = 20  // of each skill
	widest      = 249 // skills of one agent
	narrow      = 20  // skills of each other agent
	odd         = 3   // agents with odd skills, the last ones
	slowListing = 3 * time.Second
)

// The skills whose server is slow to list its tools, or never does, and the prefix of those that allow no caching, which is the default of the
// official SDK.
const (
	slowSkill     = "slow"
	hangingSkill  = "hanging"
	uncachedSkill = "uncached"
)

const listingTTL = 5 * time.Minute // of servers that allow caching

func wideName(i int) string { return fmt.Sprintf("wide%03d", i) }

// serveWide serves skills with wideTools tools each at /wide/{skill}, all with definitions of their own.
func serveWide(mux *http.ServeMux) {
	var servers sync.Map
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		skill := r.PathValue("skill")
		server, _ := servers.LoadOrStore(skill, sync.OnceValue(func() *mcp.Server { return newWideServer(skill) }))
		return server.(func() *mcp.Server)() //nolint:forcetypeassert // nothing else is stored
	}, &mcp.StreamableHTTPOptions{JSONResponse: true})
	mux.Handle("/wide/{skill}", handler)
}

// cacheableOptions lets clients cache listings. The SDK's default, a time to live of 0, makes Holdpoint list the tools again before each
// approved call.
func cacheableOptions() *mcp.ServerOptions {
	return &mcp.ServerOptions{
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs = int(listingTTL.Milliseconds()) },
	}
}

func newWideServer(skill string) *mcp.Server {
	options := cacheableOptions()
	if strings.HasPrefix(skill, uncachedSkill) {
		options = &mcp.ServerOptions{}
	}
	server := mcp.NewServer(&mcp.Implementation{Name: skill, Version: "1"}, options)
	for i := range wideTools {
		mcp.AddTool(server, &mcp.Tool{
			Name: fmt.Sprintf("tool%02d", i),
			Description: fmt.Sprintf("Tool %d of %s. ", i, skill) +
				strings.Repeat("Returns the text that it was given, which takes a few sentences to say. ", 3),
		}, echoText)
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				delayListing(ctx, skill)
			}
			return next(ctx, method, r)
		}
	})
	return server
}

func delayListing(ctx context.Context, skill string) {
	switch skill {
	case slowSkill:
		select {
		case <-time.After(slowListing):
		case <-ctx.Done():
		}
	case hangingSkill:
		<-ctx.Done()
	}
}

// wideManifest registers the skills and assigns them to agents. It returns the names of the agents: first the one with many skills, then the
// others, then those with a slow skill, a hanging one, and skills that allow no caching.
func (s *stage) wideManifest(skills, most int) (spec map[string]any, agents []string) {
	var registered, found []any
	add := func(name string) {
		registered = append(registered, map[string]any{
			"name": name, "transport": "http", "url": "http://" + s.skillAt + "/wide/" + name, "auto_approve": true,
		})
	}
	addAgent := func(name string, assigned []string) {
		list := make([]any, len(assigned))
		for i, skill := range assigned {
			list[i] = map[string]any{"skill": skill}
		}
		found = append(found, map[string]any{"name": name, "skills": list})
		agents = append(agents, name)
	}
	names := make([]string, skills)
	for i := range names {
		names[i] = wideName(i)
		add(names[i])
	}
	add(slowSkill)
	add(hangingSkill)
	addAgent("widest", names[:most])
	for some := range slices.Chunk(names, narrow) {
		addAgent("narrow"+strconv.Itoa(len(agents)), some)
	}
	uncached := make([]string, narrow)
	for i := range uncached {
		uncached[i] = uncachedSkill + strconv.Itoa(i)
		add(uncached[i])
	}
	addAgent("with-a-slow-skill", append([]string{slowSkill}, names[:narrow]...))
	addAgent("with-a-hanging-skill", append([]string{hangingSkill}, names[:narrow]...))
	addAgent("with-uncached-skills", uncached)
	return map[string]any{"skills": registered, "agents": found}, agents
}

// measureWideHouse measures a house with 500 skills and 10,000 tools.
func measureWideHouse(ctx context.Context, s *stage) error {
	spec, agents := s.wideManifest(choose(s.bench, wideSkills, 2*narrow), choose(s.bench, widest, narrow))
	for _, name := range []string{"apply of the manifest", "apply of the same manifest"} {
		began := time.Now()
		if _, err := s.api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": spec}); err != nil {
			return err
		}
		s.addWide(name, time.Since(began))
	}
	keys := map[string]string{}
	for _, agent := range agents {
		made, err := client.Value(s.api.CreateKey(ctx, agent))
		if err != nil {
			return err
		}
		keys[agent] = made.Key
	}
	target := func(agent string) target {
		return target{addr: s.addr, path: "/agents/" + agent + "/mcp", key: keys[agent], tool: wideName(0) + "__tool00"}
	}
	if err := s.measureWidest(ctx, target("widest")); err != nil {
		return err
	}
	var took []time.Duration
	for _, agent := range agents[1 : len(agents)-odd] {
		first, err := openAndList(ctx, target(agent))
		if err != nil {
			return err
		}
		took = append(took, first.took)
	}
	s.report.addTimes("wide", "first tools/list of 20 skills, ", took)
	for _, agent := range agents[len(agents)-odd:] {
		if err := s.measureOdd(ctx, agent, target(agent)); err != nil {
			return err
		}
	}
	if err := s.measureWidePages(ctx); err != nil {
		return err
	}
	s.addMemory("memory of serve with all skills listed")
	if err := s.writeSnapshot(ctx, "wide"); err != nil {
		return err
	}
	return s.measureWideRestart(ctx, target("widest"))
}

func (s *stage) addWide(name string, took time.Duration) {
	s.report.addFigure("wide", name, "ms", float64(took)/float64(time.Millisecond))
}

func (s *stage) addMemory(name string) {
	if now, _, err := readMemory(s.serve.pid()); err == nil {
		s.report.addFigure("wide", name, "MiB", float64(now)/(1<<20))
	}
}

// measureWidest measures the first and later conversations of the agent with many tools, and calls in the last of them.
func (s *stage) measureWidest(ctx context.Context, t target) error {
	first, err := openAndList(ctx, t)
	if err != nil {
		return err
	}
	s.report.addFigure("wide", "tools of the widest agent", "", float64(first.tools))
	s.report.addFigure("wide", "weight of its tools/list", "KiB", float64(first.weight)/1024)
	s.addWide("its first tools/list, cold", first.took)
	var took []time.Duration
	for range choose(s.bench, 30, 3) {
		next, err := openAndList(ctx, t)
		if err != nil {
			return err
		}
		took = append(took, next.took)
	}
	s.report.addTimes("wide", "its first tools/list, warm, ", took)
	clients, err := connectClients(ctx, t, 1, 1, 1)
	if err != nil {
		return err
	}
	defer clients.close()
	if took, err = s.callMany(clients.wires[0]); err != nil {
		return err
	}
	s.report.addTimes("wide", "call in it, ", took)
	usual := s.openTarget()
	few, err := connectClients(ctx, usual, 1, 1, 1)
	if err != nil {
		return err
	}
	defer few.close()
	if took, err = s.callMany(few.wires[0]); err != nil {
		return err
	}
	s.report.addTimes("wide", "call of an agent with two skills, ", took)
	return s.profileLoad(ctx, "wide-list", func(ctx context.Context, d time.Duration) error {
		for until := time.Now().Add(d); time.Now().Before(until); {
			if _, err := openAndList(ctx, t); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *stage) callMany(w *wire) ([]time.Duration, error) {
	var took []time.Duration
	for i := range choose(s.bench, 500, 20) {
		began := time.Now()
		if err := w.callTool(echoedText); err != nil {
			return nil, err
		}
		if i >= 10 { // the first ones warm up
			took = append(took, time.Since(began))
		}
	}
	return took, nil
}

// measureOdd measures two conversations of an agent with odd skills.
func (s *stage) measureOdd(ctx context.Context, agent string, t target) error {
	for _, which := range []string{"first", "next"} {
		opened, err := openAndList(ctx, t)
		if err != nil {
			return err
		}
		s.addWide(which+" tools/list of an agent "+strings.ReplaceAll(agent, "-", " "), opened.took)
	}
	return nil
}

// opened tells of a new conversation and its list of tools.
type opened struct {
	took   time.Duration
	tools  int
	weight int // bytes of all pages
}

// openAndList starts a conversation and reads all pages of its tools.
func openAndList(ctx context.Context, t target) (opened, error) {
	began := time.Now()
	w, err := openSession(ctx, t)
	if err != nil {
		return opened{}, err
	}
	defer w.close()
	found, err := w.listTools()
	found.took = time.Since(began)
	return found, err
}

func (w *wire) listTools() (opened, error) {
	var found opened
	params := `{}`
	for {
		response, err := w.roundTrip([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + params + `}`))
		if err != nil {
			return found, err
		}
		var answer struct {
			Result struct {
				Tools      []json.RawMessage `json:"tools"`
				NextCursor string            `json:"nextCursor"`
			} `json:"result"`
		}
		if err := json.Unmarshal(response.body, &answer); err != nil || len(answer.Result.Tools) == 0 {
			return found, fmt.Errorf("list tools at %s%s: HTTP %d: %.500s", w.addr, w.path, response.status, response.body)
		}
		found.tools += len(answer.Result.Tools)
		found.weight += len(response.body)
		if answer.Result.NextCursor == "" {
			return found, nil
		}
		params = `{"cursor":` + strconv.Quote(answer.Result.NextCursor) + `}`
	}
}

// measureWidePages measures the pages of the dashboard that list skills, agents and tools.
func (s *stage) measureWidePages(ctx context.Context) error {
	d, err := s.signIn(ctx, s.token)
	if err != nil {
		return err
	}
	defer d.close()
	agent, err := client.Value(s.api.GetAgent(ctx, "widest"))
	if err != nil {
		return err
	}
	skill, err := client.Value(s.api.GetSkill(ctx, wideName(0)))
	if err != nil {
		return err
	}
	for _, page := range []struct{ name, path string }{
		{"page of skills", "/skills"},
		{"page of agents", "/agents"},
		{"page of the widest agent", "/agents/" + agent.ID},
		{"page of a skill", "/skills/" + skill.ID},
		{"page of conversations", "/conversations"},
		{"page of insights", "/insights"},
		{"queue", "/"},
	} {
		var took []time.Duration
		weight := 0
		for range choose(s.bench, 15, 2) {
			got, err := d.fetchPage(ctx, page.path, false)
			if err != nil {
				return err
			}
			took, weight = append(took, got.firstByte), got.weight
		}
		s.report.addTimes("wide", page.name+", first byte, ", took)
		s.report.addFigure("wide", page.name+", weight", "KiB", float64(weight)/1024)
	}
	return nil
}

// measureWideRestart measures the start of serve when all is registered, and the first conversation after it.
func (s *stage) measureWideRestart(ctx context.Context, t target) error {
	s.serve.stop()
	began := time.Now()
	if err := s.startServe(ctx, nil); err != nil {
		return err
	}
	s.addWide("start of serve", time.Since(began))
	s.addMemory("memory of serve after its start")
	t.addr = s.addr
	var first opened
	list := func(ctx context.Context, _ time.Duration) (err error) {
		first, err = openAndList(ctx, t)
		return err
	}
	if s.pprof == "" {
		err := list(ctx, 0)
		s.addWide("first tools/list of the widest agent after a start", first.took)
		return err
	}
	return s.profileLoad(ctx, "wide-cold", list) // its time would be that of the profile
}
