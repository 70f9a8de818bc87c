package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api"
	"github.com/holdpoint/holdpoint/runtime/api/operate"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
)

// process is the part of a world that ends with a process of the server: running calls, turns, and the API.
type process struct {
	calls     *call.Service
	figures   *figures.Service
	retention *retention.Service
	files     *file.Service
	converse  *converse.Service
	api       *api.API
	handler   http.Handler

	clock         func() time.Time // of the API; nil: the real one
	queue         *river.Client[pgx.Tx]
	stopListening func()
	once          sync.Once
}

// start starts a process. It ends with the test, or before.
func (w *world) start(m model.Provider) *process {
	w.t.Helper()
	p := &process{}
	log := slog.New(slog.DiscardHandler)
	var err error
	p.files, err = file.New(file.Config{
		Pool: w.db.Pool(), Bucket: runtimetest.NewBucket(w.t, w.t.TempDir()), PublicURL: "https://holdpoint.test", Logger: log, Now: time.Now, MaxSize: 1000,
		Open: func(ctx context.Context, id uuid.UUID) (bool, error) { return p.calls.CanDownload(ctx, id) },
	})
	check(w.t, err)
	w.t.Cleanup(func() { check(w.t, p.files.Close()) })
	instance := uuid.New()
	p.calls, err = call.New(call.Config{
		Pool: w.db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: log, Now: time.Now, Instance: instance, Files: p.files,
		Publish: func(batch *pgx.Batch, condition string, list []call.Happening) error {
			return p.converse.Publish(batch, condition, list)
		},
	})
	check(w.t, err)
	p.figures, err = figures.New(figures.Config{Pool: w.db.Pool(), Agents: w.agents})
	check(w.t, err)
	p.converse, err = converse.New(converse.Config{
		Pool: w.db.Pool(), Agents: w.agents, Catalog: w.catalog, Calls: p.calls, Logger: log, Now: time.Now, Instance: instance,
		Provider: func(agent.ModelSpec) (model.Provider, error) { return m, nil },
	})
	check(w.t, err)
	p.retention, err = retention.New(retention.Config{Pool: w.db.Pool(), Logger: log, Now: time.Now})
	check(w.t, err)
	p.work(w, log)
	p.serve(w, log)
	return p
}

// work starts the queue.
func (p *process) work(w *world, log *slog.Logger) {
	w.t.Helper()
	p.queue = w.db.NewQueue(log, p.calls.Instance,
		map[string]int{river.QueueDefault: 2, call.ExecuteQueue: 5, converse.JobQueue: 5}, p.calls, p.figures, p.converse, p.retention)
	p.figures.Start(p.queue)
	p.retention.Start(p.queue)
	check(w.t, p.calls.Start(w.t.Context(), p.queue))
	p.converse.Start(w.t.Context(), p.queue)
	p.stopListening = w.db.Handle(map[postgres.Channel]func(string){
		converse.Channel: p.converse.HandleNotification,
		call.Channel:     p.calls.HandleNotification,
		registry.Channel: func(string) { w.agents.Invalidate() },
	}, p.converse.CatchUp)
	check(w.t, p.queue.Start(context.Background()))
	w.t.Cleanup(func() { p.stop(w) })
}

func (p *process) serve(w *world, log *slog.Logger) {
	w.t.Helper()
	var err error
	p.api, err = api.New(api.Config{
		Calls: p.calls, Figures: p.figures, History: history.New(p.calls), Agents: w.agents, Trials: w.trials, Catalog: w.catalog, Identity: w.people, OAuth: w.oauth, Notify: w.notify, Callbacks: w.callbacks, Retention: p.retention, OnCall: w.oncall, Control: w.control, Guards: w.guards, Audit: w.db.Pool(), Logger: log,
		Converse: p.converse, Now: func() time.Time {
			if p.clock != nil {
				return p.clock()
			}
			return time.Now()
		},
		Server: operate.ServerSettings{Version: "1.2.3", Stdio: true},
	})
	check(w.t, err)
	mux := http.NewServeMux()
	p.api.Mount(mux)
	p.files.Mount(mux)
	p.handler = mux
}

// stop ends the process as a server does: streams and requests to the model first.
func (p *process) stop(w *world) {
	w.t.Helper()
	p.once.Do(func() {
		ctx := context.Background()
		p.api.Drain()
		p.converse.Drain()
		check(w.t, p.queue.Stop(ctx))
		p.converse.Close()
		check(w.t, p.calls.Stop(ctx))
		p.stopListening()
	})
}
