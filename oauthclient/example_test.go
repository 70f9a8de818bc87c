package oauthclient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient"
)

// A service needs the database, the keyset, and a function that finds a skill's server by its key.
func ExampleNew() {
	start := func(pool *pgxpool.Pool, box *secret.Box, people *identity.Service, log *slog.Logger) (*oauthclient.Service, error) {
		return oauthclient.New(oauthclient.Config{
			Pool: pool, Box: box, Identity: people, Logger: log, Now: time.Now,
			PublicURL: "https://holdpoint.example.com",
			Target: func(_ context.Context, key oauthclient.Key) (oauthclient.Target, error) {
				return oauthclient.Target{Key: key, Skill: "mail", URL: "https://mail.example.com/mcp"}, nil
			},
		})
	}
	_ = start
}

// Each request is signed, and each refusal is reported. After a refusal the request is sent again if there is a better token.
func ExampleHandler() {
	send := func(ctx context.Context, handler *oauthclient.Handler, client *http.Client, build func() *http.Request) (*http.Response, error) {
		for round := 1; ; round++ {
			request := build().WithContext(ctx)
			signed, err := handler.Sign(ctx, request)
			if err != nil {
				return nil, err
			}
			response, err := client.Do(request)
			if err != nil {
				return nil, err
			}
			again, err := handler.Answered(ctx, request, "tools/call", response.StatusCode, response.Header, signed)
			if err == nil && !again {
				return response, nil
			}
			_ = response.Body.Close()
			if needs, ok := errors.AsType[*oauthclient.NeedsConnectionError](err); ok {
				return nil, fmt.Errorf("connect the skill first: %s", needs.Reason)
			}
			if err != nil {
				return nil, err
			}
			if round == oauthclient.MaxRounds {
				handler.GaveUp(ctx, response.Header)
				return nil, errors.New("the server refuses every token")
			}
		}
	}
	_ = send
}

// A person is sent to the authorization server, and comes back to CallbackPath with its response.
func ExampleService_Begin() {
	connect := func(service *oauthclient.Service, skill, person uuid.UUID) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			request, err := service.Begin(r.Context(), person, oauthclient.Key{SkillID: skill}, "")
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			http.Redirect(w, r, request.URL, http.StatusSeeOther)
		}
	}
	callback := func(service *oauthclient.Service, person uuid.UUID) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, err := service.Callback(r.Context(), person, r.URL.Query()); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		}
	}
	_, _ = connect, callback
}
