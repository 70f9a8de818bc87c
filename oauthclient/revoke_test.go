package oauthclient_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/oauthclient"
)

// waitForRevoked waits for this number of revocations.
func (w *world) waitForRevoked(ctx context.Context, count int) []received {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		list := w.as.requests("/revoke")
		var left int
		check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT count(*) FROM oauth_revocations`).Scan(&left))
		if len(list) >= count && left == 0 {
			return list
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%d revocations, %d left to be made, want %d", len(list), left, count)
		case <-tick.C:
		}
	}
}

func TestDisconnect(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, settings := range map[string]oauthclient.Settings{
		"registered client": {},
		"basic":             {ClientID: "given", ClientSecret: "s3cret:/+ &%=x"},
		"post":              {ClientID: "given", ClientSecret: "s3cret:/+ &%=x", AuthMethod: "client_secret_post"},
		"own key":           {ClientID: "given", AuthMethod: "private_key_jwt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.runJobs()
			if settings.ClientID != "" {
				w.configureClient(settings)
			}
			w.mustConnect()
			header, _, err := w.signedWith(t.Context(), w.service, w.url)
			check(t, err)
			check(t, w.service.Disconnect(t.Context(), w.alice, w.key))
			if header, _, err := w.signedWith(t.Context(), w.service, w.url); header != "" || err != nil {
				t.Errorf("signing after the disconnect: %v", err)
			}
			wantNeed(t, w.handler().Ready(t.Context()), oauthclient.NeedAgain)
			list := w.waitForRevoked(t.Context(), 2)
			kinds := map[string]string{}
			for _, r := range list {
				kinds[r.Form.Get("token_type_hint")] = r.Form.Get("token")
				_, _, basic := (&http.Request{Header: r.Header}).BasicAuth()
				if basic != (name == "basic") || (r.Form.Get("client_secret") != "") != (name == "post") || (r.Form.Get("client_assertion") != "") != (name == "own key") {
					t.Errorf("authenticated otherwise than for tokens: %v %v", r.Header, r.Form)
				}
			}
			if "Bearer "+kinds["access_token"] != header || kinds["refresh_token"] == "" || len(list) != 2 {
				t.Errorf("revoked %v", kinds)
			}
			if c := w.loadConnection(); c.Connected() || c.ExpiresAt != nil || len(c.ScopesGranted) != 0 {
				t.Errorf("stored: %+v", c)
			}
			wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
			w.mustConnect()
		})
	}
}

// A failed revocation is retried. An unavailable server does not prevent disconnecting.
func TestRevocationIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runJobs()
	w.mustConnect()
	w.as.setAnswer("/revoke", func(rw http.ResponseWriter, _ *http.Request) {
		w.as.setAnswer("/revoke", nil)
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	check(t, w.service.Disconnect(t.Context(), w.alice, w.key))
	w.waitForRevoked(t.Context(), 3)
}

func TestDisconnectNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, key := range []oauthclient.Key{w.key, {SkillID: uuid.New()}} {
		if err := w.service.Disconnect(t.Context(), w.alice, key); !errors.Is(err, oauthclient.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	}
}

// A renewal that begins before a disconnect and ends after it does not restore the old tokens.
func TestDisconnectDuringRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runJobs()
	w.mustConnect()
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	arrived, release := make(chan struct{}), make(chan struct{})
	w.as.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		w.as.token(rw, r)
	})
	sent := make(chan answer, 1)
	go func() { sent <- w.sendWith(t.Context(), w.service, w.url) }()
	<-arrived
	done := make(chan error, 1)
	go func() { done <- w.service.Disconnect(t.Context(), w.alice, w.key) }()
	select {
	case err := <-done:
		t.Fatalf("it did not wait for the renewal: %v", err)
	case <-w.lockWaiter(t):
	}
	close(release)
	check(t, <-done)
	<-sent
	w.waitForRevoked(t.Context(), 2)
	w.as.mu.Lock()
	good := len(w.as.refresh)
	w.as.mu.Unlock()
	if good != 0 {
		t.Errorf("%d refresh tokens are still valid", good)
	}
	if header, _, _ := w.signedWith(t.Context(), w.service, w.url); header != "" {
		t.Error("the disconnected key still has a token")
	}
}

// lockWaiter is closed when a statement waits for a lock.
func (w *world) lockWaiter(t *testing.T) <-chan struct{} {
	t.Helper()
	waiting := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	go func() {
		defer close(waiting)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			var n int
			err := w.db.Pool().QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
			if err != nil || n > 0 {
				return
			}
			<-tick.C
		}
	}()
	return waiting
}

func TestRemovedSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runJobs()
	w.mustConnect()
	u, err := w.beginConnection()
	check(t, err)
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		return w.service.Removed(t.Context(), tx, w.key.SkillID)
	}))
	w.waitForRevoked(t.Context(), 2)
	if err := w.receiveCallback(w.as.giveConsent(t, u)); !errors.Is(err, oauthclient.ErrFlow) {
		t.Errorf("an authorization response for a deleted skill: %v", err)
	}
	if list, _, err := w.service.List(t.Context(), oauthclient.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("connections: %v, %v", list, err)
	}
}
