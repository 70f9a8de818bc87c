// Package notify owns notifications of reviewers about pending calls: chat webhooks and Web Push subscriptions, and the
// notices of each (tables webhooks, push_keys, push_subscriptions, notices). It does not own calls, or who can decide.
//
// [Service.Queue] inserts events as a River job in the caller's transaction, or nothing if there is no subscription. The job
// spreads the events: it inserts a notice for each target, and a delivery job for each target that has none. A delivery sends
// one message about all new notices whose calls are still pending. No target gets two messages within [Gap]: later events
// collect as notices. If a process is killed, rows and jobs remain, and the message is sent later, or twice if the process
// was killed between sending it and recording that.
package notify
