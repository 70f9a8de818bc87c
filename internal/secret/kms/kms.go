// Package kms makes the clients of the key management services that a keyset can be
// encrypted with. It owns what their libraries are told, and is the only package that
// imports them; what is done with a key is package secret's.
//
// Credentials come from where each service's own tools look for them: AWS_* variables,
// profiles and roles; Google's application default credentials; VAULT_* variables.
package kms

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/tink-crypto/tink-go-awskms/v3/integration/awskms"
	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go-hcvault/v2/integration/hcvault"
	"github.com/tink-crypto/tink-go/v2/core/registry"
)

const (
	// Vault's client knows no context here, so it has limits of its own.
	vaultTimeout = 10 * time.Second // of each attempt
	vaultRetries = 1
	vaultPause   = 250 * time.Millisecond
)

// Dialer makes clients. Its zero value is ready.
type Dialer struct {
	// Google are further options for gcp-kms:// keys.
	Google []gcpkms.Option
}

// Dial makes a client for a URI: aws-kms://ARN, gcp-kms://projects/…/cryptoKeys/NAME or
// hcvault://HOST[:PORT]/MOUNT/keys/NAME. Nothing is sent to the service yet.
func (d Dialer) Dial(ctx context.Context, uri string) (registry.KMSClient, error) {
	scheme, _, _ := strings.Cut(uri, "://")
	switch scheme {
	case "aws-kms":
		return awskms.NewClientWithOptions(ctx, uri)
	case "gcp-kms":
		return gcpkms.NewClient(ctx, uri, d.Google...)
	case "hcvault":
		return dialVault(uri)
	}
	return nil, errors.New("want a URI that begins with aws-kms://, gcp-kms:// or hcvault://")
}

// vault is a client whose connections are closed after use.
type vault struct {
	registry.KMSClient
	http *http.Client
}

// Close implements io.Closer.
func (v vault) Close() error {
	v.http.CloseIdleConnections()
	return nil
}

// dialVault speaks https to the URI's host, unless VAULT_ADDR says http for that very
// host, or VAULT_AGENT_ADDR names an agent that stands between.
func dialVault(uri string) (registry.KMSClient, error) {
	at, err := url.Parse(uri)
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("want hcvault://HOST[:PORT]/MOUNT/keys/NAME")
	}
	config := api.DefaultConfig()
	if config.Error != nil {
		return nil, config.Error
	}
	given, err := url.Parse(config.Address)
	if err != nil || given.Scheme != "http" || given.Host != at.Host {
		config.Address = "https://" + at.Host
	}
	config.Timeout, config.MaxRetries = vaultTimeout, vaultRetries
	config.MinRetryWait, config.MaxRetryWait = vaultPause, vaultPause
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	made, err := hcvault.NewClientWithAEADOptions(uri, client.Logical())
	return vault{made, config.HttpClient}, err
}
