package wire_test

import (
	"fmt"

	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

func ExampleParseChallenge() {
	challenge := wire.ParseChallenge([]string{
		`Negotiate, Bearer error="insufficient_scope", scope="mail.read mail.send", ` +
			`resource_metadata="https://mail.example.com/.well-known/oauth-protected-resource"`,
	})
	fmt.Println(challenge.Scheme, challenge.Error)
	fmt.Println(challenge.Scopes)
	fmt.Println(challenge.ResourceMetadata)
	// Output:
	// bearer insufficient_scope
	// [mail.read mail.send]
	// https://mail.example.com/.well-known/oauth-protected-resource
}
