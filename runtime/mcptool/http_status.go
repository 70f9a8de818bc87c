package mcptool

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxErrorBody bounds what is read of an answer with an error status.
const maxErrorBody = 64 << 10

// refused judges an answer whose status is not 200.
func (x *httpExchange) refused(response *http.Response) outcome {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil && x.ctx.Err() != nil {
		return x.broke(err)
	}
	p := x.peer
	e, parsed := parseEnvelope(body)
	rpc := parsed == nil && e.isError()
	switch status := response.StatusCode; {
	case status == http.StatusNotFound && p.sessionID != "" && (!rpc || !e.answers(x.id) || aboutSession(e)):
		out := failed(&tool.Failure{
			Kind: tool.SessionInvalid, Effect: tool.EffectNone,
			Message: x.request.what + ": the server does not know the session, and neither the one opened instead",
		})
		out.sessionGone = true
		return out
	case rpc && status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusForbidden:
		out := failed(rpcFailure(e.err))
		out.renew = aboutSession(e) || aboutVersion(e)
		return out
	default:
		return statusFailure(x.request.what+": "+p.origin()+" answered", status, response.Header, body, nil)
	}
}

// statusFailure is the failure of an HTTP status that is no answer.
func statusFailure(what string, status int, header http.Header, body []byte, err error) outcome {
	message := fmt.Sprintf("%s HTTP %d %s", what, status, http.StatusText(status))
	effect := tool.EffectNone
	switch {
	case status < 300:
		return failed(protocolFailure(body, err, "%s, without an answer to the request", message))
	case status >= 300 && status < 400:
		// 302 and 303 may follow something that was done; the others ask
		// for the same request elsewhere.
		if status == http.StatusFound || status == http.StatusSeeOther {
			effect = tool.EffectPossible
		}
		return failed(tool.BrokeOff(effect, err, "%s: it redirects to %s, and redirects are not followed", message, redirectOrigin(header)))
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		c := oauthclient.ParseChallenge(header.Values("Www-Authenticate"))
		if c.Error != "" {
			message += " (" + plain(strings.TrimSuffix(c.Error+": "+c.ErrorDescription, ": "), 300) + ")"
		}
		f := tool.BrokeOff(effect, err, "%s", message)
		f.Unauthorized, f.Challenge = true, challenge(header)
		return failed(f)
	case status == http.StatusRequestTimeout, status >= 500:
		effect = tool.EffectPossible
	}
	if gist := bodyGist(header, body); gist != "" {
		message += ": " + gist
	}
	out := failed(tool.BrokeOff(effect, err, "%s", message))
	out.renew = status == http.StatusBadRequest || status == http.StatusNotFound
	return out
}

// challenge joins the WWW-Authenticate headers, bounded.
func challenge(header http.Header) string {
	joined := ""
	for _, value := range header.Values("Www-Authenticate") {
		if joined != "" {
			joined += ", "
		}
		joined += value
	}
	return joined[:min(len(joined), 8<<10)]
}

// redirectOrigin is where a redirect leads, without its path.
func redirectOrigin(header http.Header) string {
	target, err := url.Parse(header.Get("Location"))
	switch {
	case err != nil:
		return "an unreadable address"
	case target.Host == "":
		return "another path of the same origin"
	}
	return plain(target.Scheme+"://"+target.Host, 300)
}

// bodyGist is what a server says of its error, when it says it in words.
func bodyGist(header http.Header, body []byte) string {
	if e, err := parseEnvelope(body); err == nil && e.isError() {
		return rpcFailure(e.err).Message
	}
	if media := header.Get("Content-Type"); len(media) < 10 || media[:10] != "text/plain" {
		return ""
	}
	return plain(string(body), 300)
}

// rpcCode is the code of a JSON-RPC error.
func rpcCode(e envelope) int {
	var body struct {
		Code int `json:"code"`
	}
	if err := json.Unmarshal(e.err, &body); err != nil {
		return 0
	}
	return body.Code
}

// aboutSession reports whether an error is one of those that common servers
// send when they miss a session.
func aboutSession(e envelope) bool {
	return slices.Contains([]int{-32000, -32001, -32600}, rpcCode(e))
}

// aboutVersion reports whether an error disputes the protocol's revision.
func aboutVersion(e envelope) bool {
	return slices.Contains([]int{-32020, -32021, -32022}, rpcCode(e))
}
