// Package kms makes the clients of the key management services that a keyset can be
// encrypted with. It owns the settings of their libraries, and is the only package that
// imports them; package secret owns the use of keys. Only a build with the tag
// "cloud" has Google's client.
//
// Each client looks for credentials in the places where the service's own tools look: AWS_*
// variables, profiles and roles; Google's application default credentials; VAULT_* variables.
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
	"github.com/tink-crypto/tink-go-hcvault/v2/integration/hcvault"
	"github.com/tink-crypto/tink-go/v2/core/registry"
)

const (
	// Vault's client takes no context here, so it has its own limits.
	vaultTimeout = 10 * time.Second // for each attempt
	vaultRetries = 1
	vaultPause   = 250 * time.Millisecond
)

// Dial makes a client for a URI: aws-kms://ARN, gcp-kms://projects/…/cryptoKeys/NAME or
// hcvault://HOST[:PORT]/MOUNT/keys/NAME. Dial sends nothing to the service.
func Dial(ctx context.Context, uri string) (registry.KMSClient, error) {
	scheme, _, _ := strings.Cut(uri, "://")
	switch scheme {
	case "aws-kms":
		return awskms.NewClientWithOptions(ctx, uri)
	case "gcp-kms":
		return dialGoogle(ctx, uri)
	case "hcvault":
		return dialVault(uri)
	}
	return nil, errors.New("must be a URI that begins with aws-kms://, gcp-kms:// or hcvault://")
}

// vault is a client that closes its connections after use.
type vault struct {
	registry.KMSClient
	http *http.Client
}

// Close implements io.Closer.
func (v vault) Close() error {
	v.http.CloseIdleConnections()
	return nil
}

// dialVault uses https to the URI's host, unless VAULT_ADDR has http and the same host,
// or VAULT_AGENT_ADDR names an agent in between.
func dialVault(uri string) (registry.KMSClient, error) {
	at, err := url.Parse(uri)
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("must be hcvault://HOST[:PORT]/MOUNT/keys/NAME")
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
