// Package browsertest owns the browser of tests and measurements: it starts a headless Chromium for a test, drives it like a
// person (by data-testid attributes), and keeps a screenshot and the page if the test fails. No other package depends on the
// library that drives the browser.
//
// Files are kept in the folder HOLDPOINT_ARTIFACTS, below the test's name. By default this is the folder artifacts of the test's
// package, which Git ignores. If the variable is set, passing tests keep their screenshots too. Pages are drawn with the fonts that
// `task setup` installs. A missing browser fails the test.
package browsertest
