package wire

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// SigningKey is a private key. It signs proofs, and assertions of a client.
type SigningKey struct {
	ID  string // that it is published under; may be empty
	key crypto.Signer
}

// NewSigningKey makes a key on P-256.
func NewSigningKey() (*SigningKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return &SigningKey{key: key}, nil
}

// MarshalEC returns an EC key in DER.
func (k *SigningKey) MarshalEC() ([]byte, error) {
	key, ok := k.key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not EC")
	}
	return x509.MarshalECPrivateKey(key)
}

// ParseECKey reads a key that [SigningKey.MarshalEC] wrote.
func ParseECKey(der []byte) (*SigningKey, error) {
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, errors.New("the key cannot be read") // the cause may quote it
	}
	return &SigningKey{key: key}, nil
}

// ParsePrivateKey reads a key in PEM: PKCS #8, or the older forms of EC and RSA keys.
func ParsePrivateKey(text string) (*SigningKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("private key: not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, errors.New("private key: cannot be read") // the cause may quote it
	}
	k := &SigningKey{key: signer}
	_, err = k.algorithm()
	return k, err
}

func (k *SigningKey) algorithm() (jose.SignatureAlgorithm, error) {
	switch key := k.key.(type) {
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
	case *rsa.PrivateKey:
		return jose.RS256, nil
	}
	return "", errors.New("private key: must be RSA, or EC on P-256, P-384 or P-521")
}

// PublicKey returns the public key for a key set (RFC 7517).
func (k *SigningKey) PublicKey() (jose.JSONWebKey, error) {
	algorithm, err := k.algorithm()
	return jose.JSONWebKey{Key: k.key.Public(), KeyID: k.ID, Algorithm: string(algorithm), Use: "sig"}, err
}

// signJWT makes a JWT of claims. embed puts the public key into its header.
func (k *SigningKey) signJWT(typ jose.ContentType, claims map[string]any, embed bool) (string, error) {
	algorithm, err := k.algorithm()
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{EmbedJWK: embed}).WithType(typ)
	if k.ID != "" {
		options = options.WithHeader("kid", k.ID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: k.key}, options)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return signed.CompactSerialize()
}

// RandomText returns 256 random bits as text.
func RandomText() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
