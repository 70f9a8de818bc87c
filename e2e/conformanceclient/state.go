package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// metadataURL is the client ID that the suite expects as the URL of a metadata document. It is never fetched.
const metadataURL = "https://conformance-test.local/client-metadata.json"

const closeTime = 5 * time.Second

// state holds the services of one process.
type state struct {
	log      *slog.Logger
	server   tool.Server
	db       *postgres.DB
	identity *identity.Service
	oauth    *oauthclient.Service
	source   *mcptool.Source
	browser  *http.Client
	person   uuid.UUID
}

func openState(ctx context.Context, getenv func(string) string, log *slog.Logger, server tool.Server, sc scenario) (*state, error) {
	st := &state{log: log, server: server}
	schema, err := schemaName()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(os.TempDir(), "holdpoint-conformance-"+strconv.Itoa(os.Getuid())+"-"+schema)
	st.db, err = postgres.Open(ctx, postgres.Config{
		DatabaseURL: getenv("DATABASE_URL"), DataDir: dir, MaxConns: 4, Logger: log,
		Settings: map[string]string{"fsync": "off", "max_connections": "300"}, // all scenarios run at once
	})
	if err != nil {
		return nil, err
	}
	if err := st.openServices(ctx, sc); err != nil {
		return nil, errors.Join(err, st.close(ctx))
	}
	return st, nil
}

// schemaName returns a name for the state of the migrations. A cluster from another state cannot be used.
func schemaName() (string, error) {
	hash := sha256.New()
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return "", err
	}
	for _, name := range files {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6]), nil
}

func (st *state) openServices(ctx context.Context, sc scenario) error {
	if _, err := postgres.Migrate(ctx, st.db, migrations.FS); err != nil {
		return err
	}
	keyset, err := secret.NewKeyset()
	if err != nil {
		return err
	}
	box, err := secret.Open(secret.Config{Keyset: keyset})
	if err != nil {
		return err
	}
	const token = "conformance-bootstrap-token-0123456789"
	st.identity, err = identity.New(identity.Config{Pool: st.db.Pool(), BootstrapToken: token, Logger: st.log, Now: time.Now})
	if err != nil {
		return err
	}
	access, err := st.identity.Authenticate(ctx, token)
	if err != nil {
		return err
	}
	st.person = access.Person.ID
	target, err := url.Parse(st.server.URL)
	if err != nil {
		return err
	}
	st.oauth, err = oauthclient.New(oauthclient.Config{
		Pool: st.db.Pool(), Box: box, Identity: st.identity, Logger: st.log, Now: time.Now,
		PublicURL: "http://localhost/" + st.server.SkillID.String(), ClientMetadataURL: metadataURL,
		TrustedHosts:  []string{target.Hostname()}, // the suite's servers are on this machine
		WorkloadToken: func(context.Context) (string, error) { return sc.WorkloadJWT, nil },
		Target: func(context.Context, oauthclient.Key) (oauthclient.Target, error) {
			return skillauth.Target(st.server), nil
		},
	})
	if err != nil {
		return err
	}
	st.source = mcptool.New(mcptool.Config{Logger: st.log, OAuth: st.oauth, Version: "conformance"})
	st.browser = outbound.NewClient(outbound.Config{Policy: outbound.Policy{AllowPrivate: true}})
	return nil
}

func (st *state) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	var err error
	if st.source != nil {
		err = st.source.Close(ctx)
	}
	if st.oauth != nil {
		st.oauth.Close()
	}
	if st.identity != nil {
		st.identity.Close()
	}
	return errors.Join(err, st.db.Close(ctx))
}

// connectSkill connects as a person does in the dashboard and at the authorization server, which consents at once.
func (st *state) connectSkill(ctx context.Context, sc scenario) error {
	key := oauthclient.Key{SkillID: st.server.SkillID}
	if sc.IDToken != "" {
		return st.oauth.UseIdentity(ctx, st.person, key, sc.IDToken)
	}
	begun, err := st.oauth.Begin(ctx, st.person, key, "")
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, begun.URL, nil)
	if err != nil {
		return err
	}
	response, err := st.browser.Do(r)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	back, err := response.Location()
	if err != nil {
		return fmt.Errorf("the authorization server answered HTTP %d without a redirect: %w", response.StatusCode, err)
	}
	_, err = st.oauth.Callback(ctx, st.person, back.Query())
	return err
}
