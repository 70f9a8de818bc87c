// Package notify owns how people hear of calls that wait while they do not look: chat webhooks and Web
// Push subscriptions, what each of them was told and is still to be told (the tables webhooks, push_keys,
// push_subscriptions, notices). It does not own who may decide, nor what a call is.
//
// The way of a message: [Service.Queue] leaves events as a River job in the transaction that they are
// about, and nothing at all when nobody subscribed. The job spreads them: a row in notices for each
// target, and a job for each target that has none. That job sends, in one message, all that its target was
// not told yet of calls that still wait. No target gets two messages within [Gap]: what comes meanwhile
// collects in its rows. A process that is killed leaves rows and jobs; the message then comes late, or, if it was
// killed between sending and saying so, twice.
package notify
