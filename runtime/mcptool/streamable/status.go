package streamable

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// readRefusal returns the outcome of an answer whose status is not 200.
func (x *exchange) readRefusal(response *http.Response) session.Outcome {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil && x.ctx.Err() != nil {
		return x.failBroken(err)
	}
	s := x.session
	m, parsed := session.ParseMessage(body)
	rpc := parsed == nil && m.IsError()
	switch status := response.StatusCode; {
	case status == http.StatusNotFound && s.sessionID != "" && (!rpc || !m.IsResponseTo(x.id) || isSessionError(m)):
		out := session.Failed(&tool.Failure{
			Kind: tool.SessionInvalid, Effect: tool.EffectNone,
			Message: x.request.Label + ": the server does not know the session, and neither the one opened instead",
		})
		out.SessionGone = true
		return out
	case rpc && status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusForbidden:
		out := session.Failed(session.NewRPCFailure(m.Err))
		out.Renew = isSessionError(m) || isVersionError(m)
		return out
	default:
		return failStatus(x.request.Label+": "+s.origin()+" answered", status, response.Header, body, nil)
	}
}

// maxErrorBody bounds how much is read of an answer with an error status, in bytes.
const maxErrorBody = 64 << 10

// isSessionError reports whether an error has a code that common servers use for unknown sessions.
func isSessionError(m session.Message) bool {
	return slices.Contains([]int{-32000, -32001, -32600}, readErrorCode(m))
}

// isVersionError reports whether an error rejects the revision of the protocol.
func isVersionError(m session.Message) bool {
	return slices.Contains([]int{-32020, -32021, -32022}, readErrorCode(m))
}

// readErrorCode returns the code of a JSON-RPC error, or 0.
func readErrorCode(m session.Message) int {
	var body struct {
		Code int `json:"code"`
	}
	if err := json.Unmarshal(m.Err, &body); err != nil {
		return 0
	}
	return body.Code
}

// failStatus returns the failure of an HTTP status that is not an answer.
func failStatus(what string, status int, header http.Header, body []byte, err error) session.Outcome {
	message := fmt.Sprintf("%s HTTP %d %s", what, status, http.StatusText(status))
	effect := tool.EffectNone
	switch {
	case status < 300:
		return session.Failed(session.NewProtocolFailure(body, err, "%s, without an answer to the request", message))
	case status >= 300 && status < 400:
		// 302 and 303 may follow an action. The others mean that the request has to be sent elsewhere.
		if status == http.StatusFound || status == http.StatusSeeOther {
			effect = tool.EffectPossible
		}
		return session.Failed(tool.BrokeOff(effect, err, "%s: it redirects to %s, and redirects are not followed", message, describeRedirect(header)))
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		c := wire.ParseChallenge(header.Values("Www-Authenticate"))
		if c.Error != "" {
			message += " (" + plain.Line(strings.TrimSuffix(c.Error+": "+c.ErrorDescription, ": "), 300) + ")"
		}
		f := tool.BrokeOff(effect, err, "%s", message)
		f.Unauthorized, f.Challenge = true, joinChallenges(header)
		return session.Failed(f)
	case status == http.StatusRequestTimeout, status >= 500:
		effect = tool.EffectPossible
	}
	if gist := summarizeBody(header, body); gist != "" {
		message += ": " + gist
	}
	out := session.Failed(tool.BrokeOff(effect, err, "%s", message))
	out.Renew = status == http.StatusBadRequest || status == http.StatusNotFound
	return out
}

// joinChallenges joins the WWW-Authenticate headers, bounded.
func joinChallenges(header http.Header) string {
	joined := ""
	for _, value := range header.Values("Www-Authenticate") {
		if joined != "" {
			joined += ", "
		}
		joined += value
	}
	return joined[:min(len(joined), 8<<10)]
}

// describeRedirect returns the target of a redirect, without its path.
func describeRedirect(header http.Header) string {
	target, err := url.Parse(header.Get("Location"))
	switch {
	case err != nil:
		return "an unreadable address"
	case target.Host == "":
		return "another path of the same origin"
	}
	return plain.Line(target.Scheme+"://"+target.Host, 300)
}

// summarizeBody returns the server's explanation of an error, if it is plain text or a JSON-RPC error.
func summarizeBody(header http.Header, body []byte) string {
	if m, err := session.ParseMessage(body); err == nil && m.IsError() {
		return session.NewRPCFailure(m.Err).Message
	}
	if media := header.Get("Content-Type"); len(media) < 10 || media[:10] != "text/plain" {
		return ""
	}
	return plain.Line(string(body), 300)
}
