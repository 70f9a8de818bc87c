package httptool

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// masked stands for a secret in what is shown of a request.
const masked = "•••"

// address is the URL of a request, secrets masked or not.
func (o *outboundRequest) address(mask bool) string {
	var b strings.Builder
	b.WriteString(origin(o.base))
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

// target is the URL of a request. Whatever was put into it, it has to be below the base URL.
func (o *outboundRequest) target() (*url.URL, error) {
	text := o.address(false)
	u, err := url.Parse(text)
	prefix := strings.TrimSuffix(o.base.EscapedPath(), "/")
	switch {
	case err != nil:
		return nil, errors.New("the URL of the request is none")
	case u.Scheme != o.base.Scheme || u.Host != o.base.Host || u.User != nil || u.Fragment != "" || u.Opaque != "",
		u.EscapedPath() != prefix && !strings.HasPrefix(u.EscapedPath(), prefix+"/"), traverses(u.EscapedPath()),
		strings.ContainsAny(text, "#\\\r\n\x00 "):
		return nil, errors.New("the URL of the request would be beyond the skill's base URL")
	}
	return u, nil
}

// headerFields are the header fields as they are sent, cookies among them, sorted by name. What the transport adds of its own
// (Host, User-Agent, Content-Length, traceparent) is not among them.
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

// httpHeader is the header of the request that is sent.
func (o *outboundRequest) httpHeader(version string) http.Header {
	header := http.Header{"User-Agent": {"holdpoint/" + version}}
	for _, f := range o.headerFields(false) {
		name := f.name
		if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
			name = strings.ToLower(name) // net/http sends requests with these again on its own
		}
		header[name] = []string{f.value}
	}
	return header
}

// shown is the request as people see it. A Cookie header of which arguments are a part has the secret ones masked.
func (o *outboundRequest) shown() tool.Outgoing {
	out := tool.Outgoing{Method: o.method, URL: o.address(true), Body: o.body}
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

// Outgoing implements [tool.Source]. User-Agent, Host and what HTTP frames messages with are not told; where the skill takes OAuth tokens,
// there is an Authorization that is secret. An argument that cannot be sent is a failure here, of kind ToolError: of Call it is the
// result.
func (s *Source) Outgoing(server tool.Server, request tool.CallRequest) (*tool.Outgoing, error) {
	o, err := prepare(server, request, nil)
	if err != nil {
		return nil, prepareFailure(server, err)
	}
	if s.config.OAuth != nil && takesTokens(server) {
		if err := o.setHeader(field{name: authorizationHeader, secret: true}); err != nil {
			return nil, prepareFailure(server, err)
		}
	}
	out := o.shown()
	return &out, nil
}

// prepare makes the request of a call, without an OAuth token. preview: that which reads what the call would change; nil if there is none.
func prepare(server tool.Server, request tool.CallRequest, preview *Binding) (*outboundRequest, error) {
	b, base, err := bindOf(server, request.Definition)
	if err != nil {
		return nil, err
	}
	if preview != nil {
		b = preview
		if base, err = b.baseOf(server); err != nil {
			return nil, err
		}
	}
	o, err := resolve(b, base, request.Arguments, preview != nil)
	if err != nil {
		return nil, err
	}
	if err := o.authenticate(server, request.Caller); err != nil {
		return nil, err
	}
	if _, err := o.target(); err != nil {
		return nil, err
	}
	return o, nil
}

// prepareFailure: nothing was sent.
func prepareFailure(server tool.Server, err error) *tool.Failure {
	kind := tool.ProtocolFailure
	if isArgumentError(err) {
		kind = tool.ToolError
	}
	return failed(kind, err, "skill %s: nothing was sent: %s", server.Skill, err.Error())
}

func isArgumentError(err error) bool {
	_, is := errors.AsType[*argumentError](err)
	return is
}
