package review

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
)

// Evidence compares one argument of a call with approved calls of its tool.
type Evidence struct {
	Path    string    `json:"path" doc:"JSON Pointer (RFC 6901) into the arguments."`
	Verdict verdict   `json:"verdict" doc:"no_history: fewer than three approved calls. hidden: a secret, which is never compared."`
	Reasons []reason  `json:"reasons" nullable:"false" doc:"Why the verdict is unusual."`
	Usual   Usual     `json:"usual"`
	Last    *LastCall `json:"last,omitempty" doc:"Absent if the verdict is usual, if no approved call had the same target, or if this argument had the same value or more than 120 bytes there."`
}

// LastCall has the value of an argument in the last approved call to the same target.
type LastCall struct {
	Value      string    `json:"value"`
	Target     string    `json:"target" doc:"The account, address, URL, path or id that both calls have, as this call writes it."`
	TargetPath string    `json:"target_path" doc:"JSON Pointer (RFC 6901) of the target."`
	At         time.Time `json:"at" doc:"When the approved call was sent."`
}

// Usual describes the values that approved calls had in one place.
type Usual struct {
	Calls    int      `json:"calls" doc:"Approved calls of the tool in the last 90 days that were compared, at most 500: of the same agent, or of any agent if that agent has fewer than three."`
	Having   int      `json:"having" doc:"Of them, calls with this argument. The elements of a list share one history."`
	Same     int      `json:"same" doc:"Of them, calls with this very value."`
	Values   []string `json:"values" nullable:"false" doc:"The most frequent texts, at most three. Empty if the values vary. Of a text longer than 120 bytes, the beginning of its SHA-256."`
	Domains  []string `json:"domains" nullable:"false" doc:"Of e-mail addresses and URLs: the domains of approved calls, at most three."`
	Min      *float64 `json:"min" doc:"Of numbers, and of texts that are amounts; otherwise null."`
	Median   *float64 `json:"median"`
	Max      *float64 `json:"max"`
	Currency *string  `json:"currency" doc:"The currency of min, median and max, if the amounts have one and do not count its smallest unit; otherwise null."`
	Nearest  *string  `json:"nearest" doc:"With the reason looks_like: the usual value that this one could be mistaken for."`
}

type (
	verdict evidence.Verdict
	reason  evidence.Reason
)

// Schema implements [huma.SchemaProvider].
func (verdict) Schema(huma.Registry) *huma.Schema {
	return enumOf(evidence.Usual, evidence.Unusual, evidence.NoHistory, evidence.Hidden)
}

// Schema implements [huma.SchemaProvider].
func (reason) Schema(huma.Registry) *huma.Schema { return enumOf(evidence.AllReasons()...) }

func enumOf[T ~string](values ...T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// readEvidence returns the evidence about a call's arguments. newest is the call that [call.QueueNewest] read.
func (h *approvalHandlers) readEvidence(ctx context.Context, c *call.Call, newest uuid.UUID) ([]Evidence, error) {
	entries, err := h.calls.ReadEvidenceUpTo(ctx, c, newest)
	return listEvidence(entries), err
}

func listEvidence(entries []evidence.Entry) []Evidence {
	list := make([]Evidence, len(entries))
	for i := range entries {
		list[i] = newEvidence(&entries[i])
	}
	return list
}

func newEvidence(e *evidence.Entry) Evidence {
	v := Evidence{
		Path: e.Path, Verdict: verdict(e.Verdict), Reasons: make([]reason, len(e.Reasons)),
		Usual: Usual{
			Calls: e.Calls, Having: e.Having, Same: e.Same, Values: append([]string{}, e.Common...), Domains: append([]string{}, e.Domains...),
		},
	}
	for i, r := range e.Reasons {
		v.Reasons[i] = reason(r)
	}
	if e.Range != nil {
		v.Usual.Min, v.Usual.Median, v.Usual.Max = &e.Range.Min, &e.Range.Median, &e.Range.Max
		v.Usual.Currency = rest.OrNull(e.Range.Currency)
	}
	if e.Last != nil {
		last := LastCall(*e.Last)
		v.Last = &last
	}
	if e.Nearest != "" {
		v.Usual.Nearest = &e.Nearest
	}
	return v
}
