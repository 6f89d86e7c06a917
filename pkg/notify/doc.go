// Package notify sends notices about events. It makes notices from the events that the store finds, limits how often
// one is repeated, and sends each to the sinks that want it until one try is accepted or the notice is too old. The
// store keeps events and sent notices.
//
// Any number of processes may run it on one store. Each event is collected, and each notice sent, by one of them; if
// that process is killed meanwhile, another sends the notice again with the same id.
//
// The files, in reading order:
//
//   - notify.go: makes and sends notices, in any number of processes
//   - collect.go: makes notices from events
//   - deliver.go: sends the due notices of a sink
//   - metrics.go: what is counted
//   - slack.go: sends to Slack
//   - webhook.go: sends CloudEvents
//   - send.go: one HTTP request to a receiver, and its answer
//   - words.go: the texts of notices
//   - config.go: the settings
package notify
