// Package leaktest owns how long tests wait for their goroutines to end before these count as leaked. What a leak is,
// [goleak] decides.
package leaktest

import "go.uber.org/goleak"

// looks is how often goroutines are looked at; each look lasts up to 0.4 s, which is all that goleak gives them by itself.
const looks = 25

// Patient returns tests that, after they have passed, wait for up to ten seconds until no goroutine is left but
// those that the options ignore. It goes into [goleak.VerifyTestMain], which gets the same options.
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
