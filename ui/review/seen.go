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

// readSeen reads the measurements of the script before a decision, such as "7/7" arguments and the milliseconds. Without the script it returns
// nil: not measured.
func (h *DecisionHandler) readSeen(r *http.Request, id uuid.UUID) (*approval.Seen, error) {
	rows, of, _ := strings.Cut(r.PostFormValue("seen"), "/")
	seen := approval.Seen{SecondStep: r.PostFormValue("confirmed") != ""}
	shown := 0
	if !readCount(r.PostFormValue("shown"), &shown) || !readCount(rows, &seen.Rows) || !readCount(of, &seen.Of) || seen.Rows > seen.Of {
		return nil, nil
	}
	seen.Shown = time.Duration(shown) * time.Millisecond
	c, err := h.calls.Get(r.Context(), call.Viewer{}, id)
	if err != nil {
		return nil, err
	}
	entries, err := h.calls.ReadEvidence(r.Context(), &c)
	seen.Unusual = evidence.CountUnusual(entries)
	return &seen, err
}

// readCount reads a number of arguments or milliseconds.
func readCount(text string, n *int) (ok bool) {
	v, err := strconv.ParseUint(text, 10, 31)
	*n = int(v)
	return err == nil
}
