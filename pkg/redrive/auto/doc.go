// Package auto retries messages without an operator: those of configured topics, oldest first, when they are due. One
// rate limit bounds a process. A broker that does not answer costs messages no attempts.
//
// The files, in reading order:
//
//   - auto.go: what is found, planned, claimed and sent, batch by batch
//   - trace.go: the span of a batch
//   - feed.go: finds due messages, and holds some back
//   - health.go: partitions that fail
//   - limiter.go: the rate of sending
//   - metrics.go: what is counted
//   - config.go: the settings
package auto
