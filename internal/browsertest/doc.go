// Package browsertest owns the browser of tests and measurements: it starts a headless Chromium for a test, drives
// it as a person would (by what has a data-testid), and keeps a screenshot and the page when the test
// fails. It is the only package that knows which library speaks to the browser.
//
// Files are kept in the folder HOLDPOINT_ARTIFACTS, below the test's name; by default the folder is artifacts in the directory of the
// test's package, which Git ignores. They stay there after the test. Pages are drawn with the fonts that `task setup` installs. No
// browser is a failure, never a skipped test.
package browsertest
