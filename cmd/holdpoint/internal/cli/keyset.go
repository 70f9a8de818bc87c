package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/secret/kms"
)

// KeysetKMS is the flag that names the key of a KMS for the keyset.
const KeysetKMS = "keyset-kms-uri"

// BindKeysetKMS adds the flag to a command of the server.
func BindKeysetKMS(cmd *cobra.Command, uri *string) {
	cmd.Flags().StringVar(uri, KeysetKMS, "", "key of a KMS that the keyset is encrypted with: aws-kms://…, gcp-kms://… or hcvault://… (default: it is in clear)")
}

// CheckKeysetKMS returns an error if this build has no client for the KMS of [BindKeysetKMS]'s flag.
func CheckKeysetKMS(uri string) error {
	if err := kms.Check(uri); err != nil {
		return fmt.Errorf("--%s: %w", KeysetKMS, err)
	}
	return nil
}

// KMS is the key that a flag named.
func KMS(flag, uri string) secret.KMS {
	return secret.KMS{URI: uri, Name: "--" + flag, Dial: kms.Dial}
}

func newKeysetCmd(e *Env) *cobra.Command {
	return newGroup("keyset", "Keysets, which encrypt secrets at rest", newKeysetNewCmd(e), newKeysetRotateCmd(e), newKeysetEncryptCmd(e))
}

// keysetCommand adds the common parts of the commands. Only the KMS is a setting of the server.
func keysetCommand(cmd *cobra.Command, uri *string, own ...string) *cobra.Command {
	BindKeysetKMS(cmd, uri)
	cmd.Args = usage(cobra.MaximumNArgs(1))
	notSettings(cmd, own...)
	return ServerSettings(cmd)
}

func newKeysetNewCmd(e *Env) *cobra.Command {
	var uri string
	return keysetCommand(&cobra.Command{
		Use: "new [FILE]", Short: "Create a keyset with one new key",
		Long: `Make a keyset with one new key: in FILE, which must not exist yet, or else on the standard output, in
the form of HOLDPOINT_ENCRYPTION_KEY. With --keyset-kms-uri it is encrypted.

A keyset in plain text decrypts all secrets: protect it.`,
		Example: `  holdpoint keyset new /etc/holdpoint/secret.keyset.json
  holdpoint keyset new --keyset-kms-uri hcvault://vault.example.com/transit/keys/holdpoint`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if path := keysetFile(args); path != "" {
				if err := secret.CreateFile(cmd.Context(), path, KMS(KeysetKMS, uri)); err != nil {
					return err
				}
				e.notef("Created %s.", path)
				return nil
			}
			text, err := secret.MakeKeyset(cmd.Context(), KMS(KeysetKMS, uri))
			if err != nil {
				return err
			}
			return write(e.Stdout, text+"\n")
		},
	}, &uri)
}

func newKeysetRotateCmd(e *Env) *cobra.Command {
	var uri string
	var add, promote bool
	cmd := &cobra.Command{
		Use: "rotate [FILE]", Short: "Add a key to a keyset, and let it encrypt from now on",
		Long: `Add a key to a keyset, and encrypt with it from now on. The earlier keys stay, to decrypt older
secrets.

The keyset is that of FILE, which is replaced whole or not at all. Without FILE it is read from the
standard input and written to the standard output, in the form of HOLDPOINT_ENCRYPTION_KEY.

Where several servers share a database, all of them must have the key before one of them encrypts
with it. Do it in two stages, and give all servers the keyset and restart them after each:
--add adds the key, --promote encrypts with the newest one. Then "holdpoint migrate" encrypts older
secrets with it too.`,
		Example: `  holdpoint keyset rotate /etc/holdpoint/secret.keyset.json
  echo "$HOLDPOINT_ENCRYPTION_KEY" | holdpoint keyset rotate --add`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := secret.Change{From: KMS(KeysetKMS, uri), To: KMS(KeysetKMS, uri), Edit: (*secret.Keys).Rotate}
			switch {
			case add && !promote:
				c.Edit = (*secret.Keys).Add
			case promote && !add:
				c.Edit = (*secret.Keys).Promote
			}
			return e.changeKeyset(cmd.Context(), keysetFile(args), c)
		},
	}
	cmd.Flags().BoolVar(&add, "add", false, "only add a key, which does not encrypt yet")
	cmd.Flags().BoolVar(&promote, "promote", false, "only let the newest key encrypt")
	return keysetCommand(cmd, &uri, "add", "promote")
}

func newKeysetEncryptCmd(e *Env) *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "encrypt [FILE] --to-kms-uri URI", Short: "Encrypt a keyset with a key of a KMS",
		Long: `Encrypt a keyset with a key of a KMS. Its own keys do not change. It is in plain text now, or
encrypted with the key of --keyset-kms-uri. FILE, or the standard input and output, are as for rotate.

Any copy in plain text still decrypts everything: rotate the keyset afterwards.`,
		Example: "  holdpoint keyset encrypt /etc/holdpoint/secret.keyset.json --to-kms-uri aws-kms://arn:aws:kms:eu-central-1:111122223333:key/…",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return misusef("name a key with --to-kms-uri")
			}
			return e.changeKeyset(cmd.Context(), keysetFile(args), secret.Change{From: KMS(KeysetKMS, from), To: KMS("to-kms-uri", to)})
		},
	}
	cmd.Flags().StringVar(&to, "to-kms-uri", "", "the key: aws-kms://…, gcp-kms://… or hcvault://…")
	return keysetCommand(cmd, &from, "to-kms-uri")
}

// keysetFile is the file in the arguments; "" is the standard input and output.
func keysetFile(args []string) string {
	if len(args) == 0 || args[0] == "-" {
		return ""
	}
	return args[0]
}

// maxKeyset is above the size of any keyset.
const maxKeyset = 1 << 20

func (e *Env) changeKeyset(ctx context.Context, path string, c secret.Change) error {
	if path != "" {
		keys, err := secret.ChangeFile(ctx, path, c)
		if err != nil {
			return err
		}
		e.notef("Changed %s: %s.", path, keysIn(keys))
		return nil
	}
	given, err := io.ReadAll(io.LimitReader(e.Stdin, maxKeyset))
	if err != nil {
		return fmt.Errorf("read keyset: %w", err)
	}
	keys, changed, err := secret.ChangeKeyset(ctx, strings.TrimSpace(string(given)), "the standard input", c)
	if err != nil {
		return err
	}
	e.notef("The keyset on the standard output has %s.", keysIn(keys))
	return write(e.Stdout, changed+"\n")
}

// keysIn lists the ids of keys, which are not secret.
func keysIn(keys *secret.Keys) string {
	ids := make([]string, len(keys.IDs()))
	for i, id := range keys.IDs() {
		ids[i] = strconv.FormatUint(uint64(id), 10)
		if id == keys.Primary() {
			ids[i] += " (encrypts)"
		}
	}
	return "keys " + strings.Join(ids, ", ")
}
