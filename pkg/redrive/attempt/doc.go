// Package attempt sends one message back, or several at once. It decides when an attempt may start, what its result
// means for the message, and how attempts of dead processes are settled. A store keeps the states, a publisher writes
// the records.
//
// Every attempt has four steps: plan (choose the target partition and read its end offset), claim (store that
// intent), publish, and finish (store the result). A process may die between any two of these. Then the claim
// expires, and the settler reads the target partition from the stored offset to learn whether the record is there. So
// no message is lost, and none is sent twice unless an operator accepts it.
//
// The files, in reading order:
//
//   - attempt.go: the parts of an attempt
//   - operator.go: an operator gives a message up, or deletes it
//   - retry.go: an operator retries a message
//   - resume.go: a request is repeated whose attempt was begun before
//   - settle.go: attempts of dead processes are ended by what their target partitions hold
//   - plan.go: where messages may be sent, and which must not be
//   - memory.go: reading messages within the memory that all of them may take
//   - execute.go: claim, publish, finish
//   - metrics.go: what is counted
//   - config.go: durations, and the store and the publisher that attempts need
package attempt
