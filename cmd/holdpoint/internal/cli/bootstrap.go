package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// Bootstrap is the server's setting of the first credential.
type Bootstrap struct {
	File  string // that holds the token, or "-"
	token string
}

const (
	bootstrapToken     = "bootstrap-token"
	bootstrapTokenFile = "bootstrap-token-file"

	maxBootstrapToken = 4 << 10 // bytes
)

// Bind adds the flags to a command of the server.
func (b *Bootstrap) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.token, bootstrapToken, "", "deprecated: other programs on this machine can read it; use --"+bootstrapTokenFile+" or HOLDPOINT_BOOTSTRAP_TOKEN")
	flags.StringVar(&b.File, bootstrapTokenFile, "",
		fmt.Sprintf(`file with the credential of the person "bootstrap", operator and reviewer, of at least %d characters; "-" reads standard input`, identity.MinBootstrapToken))
}

// Read returns the token; "" if there is none.
func (b *Bootstrap) Read(cmd *cobra.Command, e *Env) (string, error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) { // flags of the command line only
		if flag.Name == bootstrapToken {
			_, _ = fmt.Fprintf(e.Stderr, "Warning: --%s is deprecated and will be removed in the next version: other programs on this machine can read it. "+
				"Use --%s FILE or the variable HOLDPOINT_BOOTSTRAP_TOKEN.\n", bootstrapToken, bootstrapTokenFile) // a warning
		}
	})
	token := b.token
	if b.File != "" {
		if token != "" {
			return "", misusef("--%s: must be left out if the bootstrap token is given in another way", bootstrapTokenFile)
		}
		var err error
		if token, err = b.readFile(e.Stdin); err != nil {
			return "", fmt.Errorf("--%s: %w", bootstrapTokenFile, err)
		}
	}
	if token == "" {
		return "", nil
	}
	if err := identity.CheckBootstrapToken(token); err != nil {
		return "", misusef("%w", err)
	}
	return token, nil
}

func (b *Bootstrap) readFile(stdin io.Reader) (string, error) {
	from := stdin
	if b.File != "-" {
		file, err := os.Open(b.File)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxBootstrapToken+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxBootstrapToken:
		return "", fmt.Errorf("it has more than %d bytes", maxBootstrapToken)
	case token == "":
		return "", errors.New("must be a token: it is empty")
	}
	return token, nil
}
