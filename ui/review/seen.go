package review

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
)

// readSeen reads what the script measured before a decision, such as "7/7" arguments and the milliseconds. Without the script it returns
// nil: not measured.
func (h *DecisionHandler) readSeen(r *http.Request, id uuid.UUID) (*approval.Seen, error) {
	rows, of, _ := strings.Cut(r.PostFormValue("seen"), "/")
	seen := approval.Seen{SecondStep: r.PostFormValue("confirmed") != ""}
	shown, err := strconv.ParseUint(r.PostFormValue("shown"), 10, 31)
	if err != nil || !readCount(rows, &seen.Rows) || !readCount(of, &seen.Of) || seen.Rows > seen.Of {
		return nil, nil
	}
	seen.Shown = time.Duration(shown) * time.Millisecond //nolint:gosec // G115: at most 31 bits
	c, err := h.calls.Get(r.Context(), call.Viewer{}, id)
	if err != nil {
		return nil, err
	}
	entries, err := h.calls.ReadEvidence(r.Context(), &c)
	seen.Unusual = evidence.CountUnusual(entries)
	return &seen, err
}

// readCount reads a count of arguments.
func readCount(text string, n *int) bool {
	v, err := strconv.ParseUint(text, 10, 16)
	*n = int(v) //nolint:gosec // G115: at most 16 bits
	return err == nil
}
