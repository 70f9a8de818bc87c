package oauthclient

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// resourceKey has the values that discovery depends on, besides the servers.
type resourceKey struct {
	skill             uuid.UUID
	url, issuer, used string
	trustOrigin       bool
}

// discovery reads metadata of skills' servers (RFC 9728) and of authorization servers (RFC 8414), and caches it.
type discovery struct {
	fetch *wire.Fetcher
	now   func() time.Time
	cache *registry.Memory[resourceKey, *wire.Resource]
}

// discoverCached is discoverResource from the cache, unless the server has just refused a token.
func (d *discovery) discoverCached(ctx context.Context, t Target, r refusal, used string) (*wire.Resource, error) {
	key := resourceKey{t.SkillID, t.URL, t.Settings.Issuer, used, t.Settings.TrustOrigin}
	began := d.now()
	load := func(ctx context.Context) (*wire.Resource, error) {
		f, err := d.discoverResource(ctx, t, r.challenge, used)
		if err == nil {
			f.ReadAt = began
		}
		return f, err
	}
	if r.early {
		return d.cache.Get(ctx, key, load)
	}
	return d.cache.GetIf(ctx, key, func(f *wire.Resource, _ time.Duration) bool { return began.Sub(f.ReadAt) < metadataMinInterval }, load)
}

// discoverResource reads the metadata of a skill's server, and that of its authorization server if only one can be meant. used
// is the issuer of the connection's tokens, if any.
func (d *discovery) discoverResource(ctx context.Context, t Target, c wire.Challenge, used string) (*wire.Resource, error) {
	f, err := d.fetch.ReadResource(ctx, t.wireSkill(), c)
	if err != nil {
		return nil, err
	}
	issuer, err := f.ChooseIssuer(t.Settings.Issuer, used)
	if err != nil || issuer == "" {
		return f, err
	}
	return f, d.fetch.AddServer(ctx, t.skillOrigin(), f, issuer)
}
