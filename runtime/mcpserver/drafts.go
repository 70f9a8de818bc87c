package mcpserver

import (
	"cmp"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// What --experimental adds to tasks; package wire has the names.

// submissionsPerMinute is the limit of calls of clients with tasks, for agents without one: the draft of approvals demands a limit.
const submissionsPerMinute = 600

// limitSubmissions returns the limit of the request's calls a minute.
func (x *exchange) limitSubmissions() int {
	perMinute := x.agent.Limits.CallsPerMinute
	if !x.Experimental || !x.modern || x.msg.Method != "tools/call" {
		return perMinute
	}
	if can, _ := x.readAbilities(nil); !can.Tasks {
		return perMinute
	}
	return cmp.Or(perMinute, submissionsPerMinute)
}

// pendingDenial returns the inside of _meta of a task that has not ended. Nil: it needs no approval.
func (x *exchange) pendingDenial(c *call.Call) []byte {
	if !x.Experimental || !c.Gated {
		return nil
	}
	return []byte(wire.PendingDenial)
}

// noteApproval returns a text before a task's result that says the same as its disposition. Empty: none is due. [call.Call.Explain] has the
// texts of calls without a result.
func (x *exchange) noteApproval(c *call.Call, w waiting) string {
	switch {
	case !x.Experimental || !w.task || !c.Gated:
		return ""
	case c.Status == call.Succeeded:
		return "A person approved this call, and it was executed.\n\n"
	default:
		return "A person approved this call, and it was executed. The tool reported an error.\n\n"
	}
}

// addDrafts adds to the inside of a result's _meta how its task ended.
func (x *exchange) addDrafts(c *call.Call, w waiting, meta []byte) []byte {
	if !x.Experimental || !w.task {
		return meta
	}
	add := func(member string) {
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = append(meta, member...)
	}
	if c.Gated {
		add(string(dispositionOf(c)))
	}
	if c.IsRefused() {
		add(wire.FinalDenial)
	}
	return meta
}

// dispositionOf returns the disposition of a call that needed an approval, and whose task has completed.
func dispositionOf(c *call.Call) wire.Disposition {
	switch {
	case c.Status == call.Succeeded:
		return wire.ApprovedExecuted
	case c.Status == call.Unknown, isCancelledByServer(c), c.Failure == tool.TransportFailure && c.Effect == tool.EffectPossible:
		return wire.OutcomeUnknown
	case c.Status == call.Failed:
		return wire.ExecutionError
	default:
		return wire.DeniedUnexecuted
	}
}
