// Package browsertest owns the browser of tests and measurements: it starts a headless Chromium for a test, drives
// it as a person would (by what has a data-testid), and keeps a screenshot and the page when the test
// fails. It is the only package that knows which library speaks to the browser.
//
// Files are kept in the test's ArtifactDir: run go test with -artifacts -outputdir to keep them
// beyond the test. No browser is a failure, never a skipped test.
package browsertest
