package httptool

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const authorizationHeader = "Authorization"

// authenticate puts on a request what the skill and Holdpoint set themselves, the later over the earlier: the skill's headers, its
// credentials, who the call is made for, and what the body is. No argument sets any of it: one that would is an *argumentError.
func (o *outboundRequest) authenticate(server tool.Server, caller tool.Caller) error {
	if err := o.skillHeaders(server.Headers); err != nil {
		return err
	}
	if user := o.base.User; user != nil {
		o.base.User = nil
		password, _ := user.Password()
		if _, given := server.Headers[authorizationHeader]; !given {
			if err := o.basic(user.Username(), password); err != nil {
				return err
			}
		}
	}
	if server.API != nil && server.API.Auth != nil {
		if err := o.apiAuth(server.API.Auth, server.AuthSecret); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(caller.Headers)) {
		if problem := tool.HeaderValueProblem(caller.Headers[name]); problem != "" || !token(name) || tool.FramingHeader(name) {
			return fmt.Errorf("the header %s, which says who the call is made for, cannot be sent", plain.Line(name, 100))
		}
		if err := o.setHeader(field{name: name, value: caller.Headers[name]}); err != nil {
			return err
		}
	}
	if o.media != "" {
		return o.setHeader(field{name: "Content-Type", value: o.media})
	}
	return nil
}

// skillHeaders are those of the operator; their values are secret. Host and Cookie go where they belong, and what frames messages is the
// transport's.
func (o *outboundRequest) skillHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		switch {
		case !token(name) || tool.HeaderValueProblem(value) != "":
			return fmt.Errorf("the skill's header %s cannot be sent: its name or its value has characters that it may not have", plain.Line(name, 100))
		case strings.EqualFold(name, "Host"):
			o.host = value
			continue
		case strings.EqualFold(name, "Cookie"):
			for text := range strings.SplitSeq(value, ";") {
				cookie, content, _ := strings.Cut(strings.TrimSpace(text), "=")
				if err := o.setCookie(cookie, content); err != nil {
					return err
				}
			}
			continue
		case tool.FramingHeader(name):
			continue
		}
		o.hide(name, value)
		if err := o.setHeader(field{name: name, value: value, secret: true}); err != nil {
			return err
		}
	}
	return nil
}

func (o *outboundRequest) apiAuth(auth *tool.APIAuth, secret string) error {
	if secret == "" {
		return errors.New("the skill's credentials have no secret: set auth.secret anew")
	}
	if auth.Type != tool.APIBasic && (auth.Type != tool.APIKey || auth.In == InHeader) && tool.HeaderValueProblem(secret) != "" {
		return errors.New("the skill's secret has characters that a header field cannot carry")
	}
	switch {
	case auth.Type == tool.APIBearer:
		o.conceal(secret)
		return o.setHeader(field{name: authorizationHeader, value: "Bearer " + secret, secret: true})
	case auth.Type == tool.APIBasic:
		return o.basic(auth.Username, secret)
	case auth.Type == tool.APIKey && auth.In == InHeader:
		if !token(auth.Name) || tool.FramingHeader(auth.Name) {
			return fmt.Errorf("the skill's credentials cannot be the header %s", plain.Line(auth.Name, 100))
		}
		o.conceal(secret)
		return o.setHeader(field{name: auth.Name, value: secret, secret: true})
	case auth.Type == tool.APIKey && auth.In == InQuery:
		name := escapeAll(auth.Name)
		for _, f := range o.query {
			if f.name == name {
				return notTheirs(f.argument, "query parameter", auth.Name)
			}
		}
		o.conceal(secret)
		o.query = append(o.query, field{name: name, value: escapeAll(secret), secret: true})
		return nil
	case auth.Type == tool.APIKey && auth.In == InCookie && token(auth.Name):
		o.conceal(secret) // besides what is written of it
		return o.setCookie(auth.Name, escapeCookie(secret))
	}
	return fmt.Errorf("credentials of type %q cannot be sent", plain.Line(auth.Type+" "+auth.In, 40))
}

// basic sets HTTP's Basic authentication (RFC 7617).
func (o *outboundRequest) basic(username, password string) error {
	if strings.Contains(username, ":") {
		return errors.New("the skill's user name has a colon, which HTTP's Basic authentication cannot send")
	}
	text := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
	o.conceal(text)
	o.conceal(password)
	return o.setHeader(field{name: authorizationHeader, value: "Basic " + text, secret: true})
}

// setCookie sets a cookie of the skill's, which is secret.
func (o *outboundRequest) setCookie(name, value string) error {
	if name == "" {
		return nil
	}
	for _, f := range o.cookies {
		if f.name == name && f.argument != "" {
			return notTheirs(f.argument, "cookie", name)
		}
	}
	o.conceal(value)
	o.cookies = append(o.cookies, field{name: name, value: value, secret: true})
	return nil
}

// The lengths in bytes from which on a credential, and the value of a header of the skill's, which may be one, are looked for in answers:
// what is shorter occurs in them by chance, and taking it out would falsify them.
const (
	leastSecret = 8
	leastHidden = 12
)

// conceal has a credential taken out of what the server answers.
func (o *outboundRequest) conceal(secret string) {
	if len(secret) >= leastSecret {
		o.secrets = append(o.secrets, secret)
	}
}

// hide has a header's value taken out of what the server answers, unless the header only says what is wanted.
func (o *outboundRequest) hide(name, value string) {
	switch strings.ToLower(name) {
	case "accept", "accept-language", "accept-charset", "user-agent", "content-type", "prefer", "cache-control", "if-match", "if-none-match":
		return
	case "authorization":
		o.conceal(skillauth.Token(value))
	}
	for _, secret := range []string{value, skillauth.Token(value)} {
		if len(secret) >= leastHidden {
			o.secrets = append(o.secrets, secret)
		}
	}
}

// authorizer puts OAuth tokens on requests: where the operator said how they are got, and gave no other credentials. Nil: there are none.
func (s *Source) authorizer(server tool.Server) *skillauth.Authorizer {
	if !takesTokens(server) {
		return nil
	}
	return skillauth.New(s.config.OAuth, server)
}

// takesTokens reports whether the operator wants OAuth tokens on the requests of a skill.
func takesTokens(server tool.Server) bool {
	_, given := server.Headers[authorizationHeader]
	a := server.Authorization
	return server.URL != "" && !given && (server.API == nil || server.API.Auth == nil) && (a.Grant != "" || a.Issuer != "" || a.ClientID != "")
}

// Ready implements [tool.Source].
func (s *Source) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	return s.authorizer(server).Ready(ctx)
}
