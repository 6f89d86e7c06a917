// Package notify sends notifications about events. It makes notifications from the events that the store finds, limits
// how often the same notification is repeated, and tries to send each notification to every sink that wants it, until
// the sink accepts it or it is too old. The store keeps events and sent notifications.
//
// Any number of processes may send notifications with one store. Each event is collected by one process, and each
// notification is sent by one process. If a process is killed while it sends a notification, another process sends the
// notification again with the same id.
//
// The files, in reading order:
//
//   - notify.go: makes and sends notifications, in any number of processes
//   - collect.go: makes notifications from events
//   - deliver.go: sends the due notifications of a sink
//   - metrics.go: the metrics of notifications
//   - slack.go: sends to Slack
//   - webhook.go: sends CloudEvents
//   - send.go: one HTTP request to a receiver, and its answer
//   - words.go: the texts of notifications
//   - config.go: the settings
package notify
