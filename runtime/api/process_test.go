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
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"gocloud.dev/blob/fileblob"

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// process is what of a world dies with a process of the server: calls on their way, turns, and the API.
type process struct {
	calls    *call.Service
	figures  *figures.Service
	files    *file.Service
	converse *converse.Service
	api      *api.API
	handler  http.Handler

	clock func() time.Time // of the API; nil: the real one
	queue *river.Client[pgx.Tx]
	hush  context.CancelFunc // ends the listening
	heard sync.WaitGroup
	once  sync.Once
}

// start starts a process. It ends with the test, or before.
func (w *world) start(m model.Provider) *process {
	w.t.Helper()
	p := &process{}
	log := slog.New(slog.DiscardHandler)
	bucket, err := fileblob.OpenBucket(w.t.TempDir(), &fileblob.Options{Metadata: fileblob.MetadataDontWrite, NoTempDir: true})
	check(w.t, err)
	p.files, err = file.New(file.Config{
		Pool: w.db.Pool(), Bucket: bucket, PublicURL: "https://holdpoint.test", Logger: log, Now: time.Now, MaxSize: 1000,
		Open: func(ctx context.Context, id uuid.UUID) (bool, error) { return p.calls.FilesOpen(ctx, id) },
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
	p.work(w, log)
	p.serve(w, log)
	return p
}

// work begins to work off jobs.
func (p *process) work(w *world, log *slog.Logger) {
	w.t.Helper()
	workers := river.NewWorkers()
	p.calls.AddWorkers(workers)
	p.figures.AddWorkers(workers)
	p.converse.AddWorkers(workers)
	var err error
	p.queue, err = river.NewClient(riverpgxv5.New(w.db.Pool()), &river.Config{
		Logger: log, Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}, call.ExecuteQueue: {MaxWorkers: 5}, converse.JobQueue: {MaxWorkers: 5}},
	})
	check(w.t, err)
	p.figures.Start(p.queue)
	check(w.t, p.calls.Start(w.t.Context(), p.queue))
	p.converse.Start(w.t.Context(), p.queue)
	p.listen(w)
	check(w.t, p.queue.Start(context.Background()))
	w.t.Cleanup(func() { p.stop(w) })
}

func (p *process) listen(w *world) {
	var ctx context.Context
	ctx, p.hush = context.WithCancel(context.Background())
	p.heard.Go(func() {
		w.db.Listen(ctx, []string{converse.Channel, call.Channel, registry.Channel}, func(channel, payload string) {
			switch channel {
			case converse.Channel:
				p.converse.HandleNotification(payload)
			case call.Channel:
				p.calls.HandleNotification(payload)
			default:
				w.agents.Invalidate()
			}
		}, p.converse.CatchUp)
	})
}

func (p *process) serve(w *world, log *slog.Logger) {
	w.t.Helper()
	var err error
	p.api, err = api.New(api.Config{
		Calls: p.calls, Figures: p.figures, Agents: w.agents, Catalog: w.catalog, Identity: w.people, OAuth: w.oauth, Notify: w.notify, Callbacks: w.callbacks, Audit: w.db.Pool(), Logger: log,
		Converse: p.converse, Now: func() time.Time {
			if p.clock != nil {
				return p.clock()
			}
			return time.Now()
		},
		Server: api.ServerSettings{Version: "1.2.3", Stdio: true},
	})
	check(w.t, err)
	mux := http.NewServeMux()
	p.api.Mount(mux)
	p.files.Mount(mux)
	p.handler = mux
}

// stop ends the process in good order: streams and requests to the model first, as a server does.
func (p *process) stop(w *world) {
	w.t.Helper()
	p.once.Do(func() {
		ctx := context.Background()
		p.api.Drain()
		p.converse.Drain()
		check(w.t, p.queue.Stop(ctx))
		p.converse.Close()
		check(w.t, p.calls.Stop(ctx))
		p.hush()
		p.heard.Wait()
	})
}
