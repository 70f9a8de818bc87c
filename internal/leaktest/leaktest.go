// Package leaktest gives the goroutines of tests more time to end than [goleak] before they count as leaked.
package leaktest

import "go.uber.org/goleak"

// looks is the number of checks. Each lasts up to 0.4 s, which is the limit of goleak itself.
const looks = 25

// Patient returns tests that wait up to ten seconds for their goroutines after they have passed, except for those that the
// options ignore. Pass it to [goleak.VerifyTestMain] with the same options.
func Patient(tests goleak.TestingM, options ...goleak.Option) goleak.TestingM {
	return patient{tests, options}
}

type patient struct {
	tests   goleak.TestingM
	options []goleak.Option
}

// Run implements [goleak.TestingM].
func (p patient) Run() int {
	code := p.tests.Run()
	for look := 0; code == 0 && look < looks && goleak.Find(p.options...) != nil; look++ {
	}
	return code
}
