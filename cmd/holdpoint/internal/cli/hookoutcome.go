package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// A host starts one process before a tool runs and another one after it. The first leaves the call's id for the second. Nothing is decided by
// it: without it the outcome is not reported.

// openCall is a call that was allowed.
type openCall struct {
	ID        string `json:"id"`
	RequestID string `json:"request_id"`
}

const (
	// maxOpenCall is how long an id is kept. The server waits a day for an outcome.
	maxOpenCall = 24 * time.Hour
	// maxOutcome limits the text of an outcome, in bytes.
	maxOutcome = 16 << 10
)

// openCallPath returns the file of the call that the message is about, and its folder.
func (h *hookCaller) openCallPath() (dir, path string, err error) {
	dir = h.state
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return "", "", err
		}
		dir = filepath.Join(dir, "holdpoint", "hook")
	}
	name := sha256.New()
	subject := []string{h.hook.Name, h.agent, h.event.SessionID, h.event.Tool, h.event.CallID}
	if h.event.CallID == "" {
		subject = append(subject, string(h.event.Arguments))
	}
	if err := json.NewEncoder(name).Encode(subject); err != nil {
		return "", "", err
	}
	return dir, filepath.Join(dir, hex.EncodeToString(name.Sum(nil))+".json"), nil
}

// remember notes the id of the call that may run now. If that fails, the outcome is not reported, as the call then says.
func (h *hookCaller) remember() {
	dir, path, err := h.openCallPath()
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	h.forgetOld(dir)
	text, err := json.Marshal(openCall{ID: h.released, RequestID: h.requestID})
	if err == nil {
		_ = os.WriteFile(path, text, 0o600)
	}
}

// forgetOld deletes ids of calls whose outcome the server no longer waits for.
func (h *hookCaller) forgetOld(dir string) {
	entries, _ := os.ReadDir(dir) // a folder that cannot be read is not cleaned
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && filepath.Ext(entry.Name()) == ".json" && h.Now().Sub(info.ModTime()) > maxOpenCall {
			_ = os.Remove(filepath.Join(dir, entry.Name())) // another hook may have deleted it
		}
	}
}

// reportNotRun reports that the call was allowed and that the host is gone, so it was not run.
func (h *hookCaller) reportNotRun(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	if err := h.api.ReportGate(ctx, h.agent, h.released, client.GateOutcome{RequestID: h.requestID, Status: client.GateNotRun}); err != nil {
		h.notef("report that the host is gone: %v", err)
		return
	}
	if _, path, err := h.openCallPath(); err == nil {
		_ = os.Remove(path) // without the file, nothing else is reported
	}
}

// reportOutcome reports what became of a call.
func (h *hookCaller) reportOutcome(ctx context.Context) host.Verdict {
	_, path, err := h.openCallPath()
	if err != nil {
		return host.Verdict{After: true, Reason: err.Error()}
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h.reportUnknown(ctx)
	}
	var call openCall
	if err == nil {
		err = json.Unmarshal(text, &call)
	}
	if err == nil {
		output, _ := plain.Page(h.event.Output, 1, maxOutcome)
		outcome := client.GateOutcome{RequestID: call.RequestID, Status: client.GateSucceeded, Text: output}
		if h.event.Failed {
			outcome.Status = client.GateFailed
		}
		err = h.api.ReportGate(ctx, h.agent, call.ID, outcome)
	}
	if err != nil {
		return host.Verdict{After: true, Reason: fmt.Sprintf("report the outcome to Holdpoint: %v", err)}
	}
	_ = os.Remove(path) // a second report of the same outcome changes nothing
	return host.Verdict{After: true}
}

// reportUnknown reports a call that ran and of which this machine knows no release: the guard was bypassed, unless the server knows one. Hosts
// may report a refused call as one that failed, so only a tool that succeeded counts.
func (h *hookCaller) reportUnknown(ctx context.Context) host.Verdict {
	if h.guard == "" || h.event.Failed {
		return host.Verdict{After: true}
	}
	released, err := h.api.ReportRan(ctx, h.agent, h.guard, client.GuardedCall{Skill: h.skill, Tool: h.event.Tool, Arguments: h.event.Arguments})
	switch {
	case err != nil:
		return host.Verdict{After: true, Reason: fmt.Sprintf("report a call that ran to Holdpoint: %v", err)}
	case !released:
		return host.Verdict{After: true, Reason: "Holdpoint did not release this call, and it ran. Operators are alerted."}
	}
	return host.Verdict{After: true}
}
