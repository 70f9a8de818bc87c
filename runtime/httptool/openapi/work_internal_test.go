package openapi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// manyTimes joins f(0) to f(n-1) with commas.
func manyTimes(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

// triplingSchemas returns n schemas, each of which refers to the next one nine times.
func triplingSchemas(n int) string {
	return manyTimes(n, func(i int) string {
		next := fmt.Sprintf(`{"$ref":"#/components/schemas/S%d"}`, i+1)
		return fmt.Sprintf(`"S%d":{"properties":{"a":%[2]s,"b":%[2]s,"c":%[2]s},"anyOf":[%[2]s,%[2]s,%[2]s],"oneOf":[%[2]s,%[2]s,%[2]s]}`, i, next)
	}) + fmt.Sprintf(`,"S%d":{"type":"string"}`, n)
}

const (
	documentHead = `{"openapi":"3.1.0","paths":{`
	largeBody    = `"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":%s}}}}}`
)

// impatient is a context that is canceled after a number of checks.
type impatient struct {
	context.Context
	checks int
}

func (c *impatient) Err() error {
	if c.checks--; c.checks < 0 {
		return context.Canceled
	}
	return nil
}

// TestReadingEndsWithItsContext: reading stops when its context ends, even within an operation.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	text := documentHead + fmt.Sprintf(largeBody, `{"$ref":"#/components/schemas/S0"}`) + `},"components":{"schemas":{` + triplingSchemas(2000) + `}}}`
	server := &tool.Server{URL: "https://a.example", API: &tool.API{}}
	if made, err := Define(&impatient{t.Context(), 3}, []byte(text), server, Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v, want context.Canceled", made, err)
	}
	if found, err := Examine(&impatient{t.Context(), 3}, []byte(text), "", Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v, want context.Canceled", found, err)
	}
}

// TestTooComplexDocuments: reading a document stops after too much work.
func TestTooComplexDocuments(t *testing.T) {
	t.Parallel()
	unknown := manyTimes(2000, func(i int) string { return fmt.Sprintf(`"x-%d":0`, i) })
	for name, text := range map[string]string{
		"deep references": documentHead + manyTimes(100, func(i int) string {
			return fmt.Sprintf(strings.Replace(largeBody, "/a", fmt.Sprintf("/a%d", i), 1), `{"$ref":"#/components/schemas/S0"}`)
		}) + `},"components":{"schemas":{` + triplingSchemas(500) + `}}}`,
		"one path item for all": documentHead + manyTimes(2000, func(i int) string {
			return fmt.Sprintf(`"/a%d":{"$ref":"#/components/pathItems/A"}`, i)
		}) + `},"components":{"pathItems":{"A":{` + unknown + `}}}}`,
		"one response for all": documentHead + `"/a":{"get":{"responses":{` + manyTimes(100, func(i int) string {
			return fmt.Sprintf(`"2%02d":{"$ref":"#/components/responses/A"}`, i)
		}) + `}}}},"components":{"responses":{"A":{"content":{` + unknown + `}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := readDocument(t.Context(), []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			doc.left = 200_000
			made, err := func() (_ *Definitions, err error) {
				defer catchStop(&err)
				return newBuilder(doc, &tool.Server{URL: "https://a.example", API: &tool.API{}}, Limits{}).defineTools()
			}()
			if !errors.Is(err, errTooComplex) {
				t.Errorf("%+v, %v, want %v", made, err, errTooComplex)
			}
		})
	}
}

// TestPatternsOfDocumentsAreNotCompiled: compiling 17 KiB of patterns took 300 MiB. Not parallel, because it measures
// memory.
func TestPatternsOfDocumentsAreNotCompiled(t *testing.T) {
	large := strings.Repeat("(a{1000})", 300)
	text := documentHead + fmt.Sprintf(largeBody, `{"properties":{`+manyTimes(4, func(i int) string {
		return fmt.Sprintf(`"p%d":{"pattern":"%d%s"}`, i, i, large)
	})+`},"patternProperties":{`+manyTimes(2, func(i int) string { return fmt.Sprintf(`"%d%s":{}`, i, large) })+`}}`) + `}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := Examine(t.Context(), []byte(text), "", Limits{})
	runtime.ReadMemStats(&after)
	if err != nil || len(found.Operations) != 1 || !strings.Contains(found.Operations[0].Skipped, "cannot be used") {
		t.Errorf("%+v, %v", found.Operations, err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
		t.Errorf("it took %d MiB", took)
	}
}
