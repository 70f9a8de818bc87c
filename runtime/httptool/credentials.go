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
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const authorizationHeader = "Authorization"

// addCredentials adds the header fields that the skill and Holdpoint set: the skill's headers, its credentials, the caller's headers, and the
// Content-Type, each overriding those before. An argument that would set one of them is an *argumentError.
func (o *outboundRequest) addCredentials(server tool.Server, caller tool.Caller) error {
	if err := o.setSkillHeaders(server.Headers); err != nil {
		return err
	}
	if user := o.base.User; user != nil {
		o.base.User = nil
		password, _ := user.Password()
		if _, given := server.Headers[authorizationHeader]; !given {
			if err := o.setBasicAuth(user.Username(), password); err != nil {
				return err
			}
		}
	}
	if server.API != nil && server.API.Auth != nil {
		if err := o.setCredentials(server.API.Auth, server.AuthSecret); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(caller.Headers)) {
		if problem := setting.HeaderValueProblem(caller.Headers[name]); problem != "" || !isToken(name) || setting.IsFramingHeader(name) {
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

// setSkillHeaders sets the operator's headers, whose values are secret. Host and Cookie have fields of their own. It skips framing headers, which
// belong to the transport.
func (o *outboundRequest) setSkillHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		switch {
		case !isToken(name) || setting.HeaderValueProblem(value) != "":
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
		case setting.IsFramingHeader(name):
			continue
		}
		o.concealHeader(name, value)
		if err := o.setHeader(field{name: name, value: value, secret: true}); err != nil {
			return err
		}
	}
	return nil
}

// setCredentials sets the credentials of the skill's settings.
func (o *outboundRequest) setCredentials(auth *tool.APIAuth, secret string) error {
	if secret == "" {
		return errors.New("the skill's credentials have no secret: set auth.secret anew")
	}
	if auth.Type != tool.APIBasic && (auth.Type != tool.APIKey || auth.In == openapi.InHeader) && setting.HeaderValueProblem(secret) != "" {
		return errors.New("the skill's secret has characters that a header field cannot carry")
	}
	switch {
	case auth.Type == tool.APIBearer:
		o.concealSecret(secret)
		return o.setHeader(field{name: authorizationHeader, value: "Bearer " + secret, secret: true})
	case auth.Type == tool.APIBasic:
		return o.setBasicAuth(auth.Username, secret)
	case auth.Type == tool.APIKey && auth.In == openapi.InHeader:
		if !isToken(auth.Name) || setting.IsFramingHeader(auth.Name) {
			return fmt.Errorf("the skill's credentials cannot be the header %s", plain.Line(auth.Name, 100))
		}
		o.concealSecret(secret)
		return o.setHeader(field{name: auth.Name, value: secret, secret: true})
	case auth.Type == tool.APIKey && auth.In == openapi.InQuery:
		name := escapeAll(auth.Name)
		for _, f := range o.query {
			if f.name == name {
				return conflictError(f.argument, "query parameter", auth.Name)
			}
		}
		o.concealSecret(secret)
		o.query = append(o.query, field{name: name, value: escapeAll(secret), secret: true})
		return nil
	case auth.Type == tool.APIKey && auth.In == openapi.InCookie && isToken(auth.Name):
		o.concealSecret(secret) // and setCookie its escaped form
		return o.setCookie(auth.Name, escapeCookie(secret))
	}
	return fmt.Errorf("credentials of type %q cannot be sent", plain.Line(auth.Type+" "+auth.In, 40))
}

// setBasicAuth sets HTTP Basic authentication (RFC 7617).
func (o *outboundRequest) setBasicAuth(username, password string) error {
	if strings.Contains(username, ":") {
		return errors.New("the skill's user name has a colon, which HTTP's Basic authentication cannot send")
	}
	text := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
	o.concealSecret(text)
	o.concealSecret(password)
	return o.setHeader(field{name: authorizationHeader, value: "Basic " + text, secret: true})
}

// setCookie sets a secret cookie of the skill.
func (o *outboundRequest) setCookie(name, value string) error {
	if name == "" {
		return nil
	}
	for _, f := range o.cookies {
		if f.name == name && f.argument != "" {
			return conflictError(f.argument, "cookie", name)
		}
	}
	o.concealSecret(value)
	o.cookies = append(o.cookies, field{name: name, value: value, secret: true})
	return nil
}

// Answers are searched for credentials and for header values of the skill, which may be credentials, from these lengths on, in bytes. Shorter
// values occur by chance, and masking them would falsify answers.
const (
	minSecret      = 8
	minHeaderValue = 12
)

// concealSecret masks a credential in answers.
func (o *outboundRequest) concealSecret(secret string) {
	if len(secret) >= minSecret {
		o.secrets = append(o.secrets, secret)
	}
}

// concealHeader masks a header's value in answers, unless the header only describes the request.
func (o *outboundRequest) concealHeader(name, value string) {
	switch strings.ToLower(name) {
	case "accept", "accept-language", "accept-charset", "user-agent", "content-type", "prefer", "cache-control", "if-match", "if-none-match":
		return
	case "authorization":
		o.concealSecret(skillauth.Token(value))
	}
	for _, secret := range []string{value, skillauth.Token(value)} {
		if len(secret) >= minHeaderValue {
			o.secrets = append(o.secrets, secret)
		}
	}
}

// authorizerFor returns the authorizer that adds OAuth tokens to requests. Nil: the skill does not use tokens.
func (s *Source) authorizerFor(server tool.Server) *skillauth.Authorizer {
	if !usesTokens(server) {
		return nil
	}
	return skillauth.New(s.config.OAuth, server)
}

// usesTokens reports whether requests of a skill carry OAuth tokens: the operator configured OAuth and no other credentials.
func usesTokens(server tool.Server) bool {
	_, given := server.Headers[authorizationHeader]
	a := server.Authorization
	return server.URL != "" && !given && (server.API == nil || server.API.Auth == nil) && (a.Grant != "" || a.Issuer != "" || a.ClientID != "")
}

// Ready implements [tool.Source].
func (s *Source) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	return s.authorizerFor(server).Ready(ctx)
}
