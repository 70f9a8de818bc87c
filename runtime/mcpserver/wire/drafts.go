package wire

import "strings"

// Drafts of MCP that agents' endpoints follow with serve --experimental: the approval of tools (SEP-2848), and denials (SEP-2643). Drafts
// change, so all of their names are in this file.

// ApprovalExtension is the extension of servers whose tasks wait for approvals.
const ApprovalExtension = "io.modelcontextprotocol/tool-approval"

// The members of a result's _meta that the drafts define.
const (
	metaDisposition   = "io.modelcontextprotocol/tool-approval-disposition"
	metaAuthorization = "io.modelcontextprotocol/authorization"
)

// Disposition says how the task of a call that needed an approval ended. It is a member of _meta.
type Disposition string

// The dispositions.
const (
	ApprovedExecuted Disposition = `"` + metaDisposition + `":"approved-executed"`
	DeniedUnexecuted Disposition = `"` + metaDisposition + `":"denied-not-executed"`
	ExecutionError   Disposition = `"` + metaDisposition + `":"execution-error"`
	OutcomeUnknown   Disposition = `"` + metaDisposition + `":"outcome-unknown"`
)

// The members of _meta that describe a denial. Of a pending one the task is the remedy; the client must not repeat a final one unchanged.
const (
	PendingDenial = `"` + metaAuthorization + `":{"reason":"insufficient_authorization","remediation":"available","remediationHints":[{"type":"task"}]}`
	FinalDenial   = `"` + metaAuthorization + `":{"reason":"insufficient_authorization","remediation":"unavailable"}`
)

// isReserved reports whether a member of _meta is for Holdpoint alone. A skill's server must not say how a call was approved.
func isReserved(name string) bool {
	return strings.HasPrefix(name, MetaPrefix) || name == metaDisposition || name == metaAuthorization
}
