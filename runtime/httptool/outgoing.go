package httptool

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// masked replaces a secret in a request that is shown.
const masked = "•••"

// formatURL returns the URL of a request.
func (o *outboundRequest) formatURL(mask bool) string {
	var b strings.Builder
	b.WriteString(baseOrigin(o.base))
	b.WriteString(o.path)
	for i, f := range o.query {
		b.WriteByte("?&"[min(i, 1)])
		b.WriteString(f.name)
		b.WriteByte('=')
		if f.secret && mask {
			b.WriteString(masked)
		} else {
			b.WriteString(f.value)
		}
	}
	return b.String()
}

// targetURL returns the URL of a request. It refuses any URL outside the base URL.
func (o *outboundRequest) targetURL() (*url.URL, error) {
	text := o.formatURL(false)
	u, err := url.Parse(text)
	prefix := strings.TrimSuffix(o.base.EscapedPath(), "/")
	switch {
	case err != nil:
		return nil, errors.New("the URL of the request is none")
	case u.Scheme != o.base.Scheme || u.Host != o.base.Host || u.User != nil || u.Fragment != "" || u.Opaque != "",
		u.EscapedPath() != prefix && !strings.HasPrefix(u.EscapedPath(), prefix+"/"), hasTraversal(u.EscapedPath()),
		strings.ContainsAny(text, "#\\\r\n\x00 "):
		return nil, errors.New("the URL of the request would be beyond the skill's base URL")
	}
	return u, nil
}

// headerFields returns the header fields as they are sent, including cookies, sorted by name. It leaves out the fields that the transport adds:
// Host, User-Agent, Content-Length and traceparent.
func (o *outboundRequest) headerFields(mask bool) []field {
	all := slices.Clone(o.header)
	if len(o.cookies) > 0 {
		cookie := field{name: "Cookie", secret: !slices.ContainsFunc(o.cookies, func(f field) bool { return !f.secret })}
		var texts []string
		for _, f := range o.cookies {
			if f.secret && mask {
				f.value = masked
			}
			texts = append(texts, f.name+"="+f.value)
		}
		cookie.value = strings.Join(texts, "; ")
		all = append(all, cookie)
	}
	slices.SortStableFunc(all, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return all
}

// httpHeader returns the header of the request that is sent.
func (o *outboundRequest) httpHeader(version string) http.Header {
	header := http.Header{"User-Agent": {"holdpoint/" + version}}
	for _, f := range o.headerFields(false) {
		name := f.name
		if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
			name = strings.ToLower(name) // net/http repeats requests with the canonical name
		}
		header[name] = []string{f.value}
	}
	return header
}

// showMasked returns the request for display. In a Cookie header with arguments, only the secret cookies are masked.
func (o *outboundRequest) showMasked() tool.Outgoing {
	out := tool.Outgoing{Method: o.method, URL: o.formatURL(true), Body: o.body}
	if o.host != "" {
		out.Headers = append(out.Headers, tool.OutgoingHeader{Name: "Host", Secret: true})
	}
	for _, f := range o.headerFields(true) {
		h := tool.OutgoingHeader{Name: f.name, Value: f.value, Secret: f.secret}
		if f.secret {
			h.Value = ""
		}
		out.Headers = append(out.Headers, h)
	}
	return out
}

// Outgoing implements [tool.Previewer]. It leaves out User-Agent, Host and framing headers. If the skill uses OAuth tokens it shows a secret
// Authorization. For an argument that cannot be sent it returns a failure of kind ToolError, where Call returns an error result.
func (s *Source) Outgoing(server tool.Server, request tool.CallRequest) (*tool.Outgoing, error) {
	o, err := buildRequest(server, request, nil)
	if err != nil {
		return nil, unsentFailure(server, err)
	}
	if s.config.OAuth != nil && usesTokens(server) {
		if err := o.setHeader(field{name: authorizationHeader, secret: true}); err != nil {
			return nil, unsentFailure(server, err)
		}
	}
	out := o.showMasked()
	return &out, nil
}

// buildRequest builds the request of a call without an OAuth token. If preview is set it builds the request that reads the current state.
func buildRequest(server tool.Server, request tool.CallRequest, preview *openapi.Binding) (*outboundRequest, error) {
	b, base, err := bindingFor(server, request.Definition)
	if err != nil {
		return nil, err
	}
	if preview != nil {
		b = preview
		if base, err = baseURLFor(b, server); err != nil {
			return nil, err
		}
	}
	o, err := resolveRequest(b, base, request.Arguments, preview != nil)
	if err != nil {
		return nil, err
	}
	if err := o.addCredentials(server, request.Caller); err != nil {
		return nil, err
	}
	if _, err := o.targetURL(); err != nil {
		return nil, err
	}
	return o, nil
}

// unsentFailure returns the failure of a request that was not sent.
func unsentFailure(server tool.Server, err error) *tool.Failure {
	kind := tool.ProtocolFailure
	if isArgumentError(err) {
		kind = tool.ToolError
	}
	return newFailure(kind, err, "skill %s: nothing was sent: %s", server.Skill, err.Error())
}

func isArgumentError(err error) bool {
	_, is := errors.AsType[*argumentError](err)
	return is
}
