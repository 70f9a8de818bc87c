package audit_test

import (
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// An event has only its actor's own credential.
func TestEventsHaveTheirOrigin(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t).Pool()
	vera := audit.Person(uuid.New())
	credential := audit.Credential{Kind: audit.PersonalToken, ID: "t1"}
	ctx := clientaddr.WithAddr(audit.WithCredential(t.Context(), vera, credential), netip.MustParseAddr("203.0.113.9"))
	other, subject := audit.Person(uuid.New()), uuid.New()
	err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx,
			audit.Event{Actor: vera, Action: audit.PersonLinked, Subject: subject},
			audit.Event{Actor: other, Action: audit.PersonBlocked, Subject: subject},
			audit.Event{Actor: audit.System(), Action: audit.PersonClaimed, Subject: subject})
	})
	if err != nil {
		t.Fatal(err)
	}
	queued := audit.Event{Actor: vera, Action: audit.PersonGranted, Subject: subject}
	queued.SetOrigin(ctx)
	batch := &pgx.Batch{}
	if err := audit.Queue(batch, queued); err != nil {
		t.Fatal(err)
	}
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		t.Fatal(err)
	}
	events, err := audit.List(ctx, pool, audit.Filter{Subject: subject})
	if err != nil {
		t.Fatal(err)
	}
	whole := audit.Origin{Credential: credential, Address: "203.0.113.9"}
	want := map[audit.Action]audit.Origin{
		audit.PersonLinked: whole, audit.PersonGranted: whole, audit.PersonBlocked: {Address: "203.0.113.9"}, audit.PersonClaimed: {},
	}
	for _, e := range events {
		if e.Origin != want[e.Action] {
			t.Errorf("%s: %+v, want %+v", e.Action, e.Origin, want[e.Action])
		}
	}
	if len(events) != len(want) {
		t.Errorf("%d events", len(events))
	}
}
