// Package attempt sends one message back, or several at once. It decides when an attempt may start, what its result
// means for the message, and how attempts of dead processes are settled. The Store keeps the states of messages, and
// the Publisher writes their records to Kafka.
//
// Every attempt has four steps: plan (choose the target partition and read its end offset), claim (store that
// intent), publish, and finish (store the result). A process may die between any two of these. Then the claim
// expires, and the settler reads the target partition from the stored offset to learn whether the record is there. So
// no message is lost, and none is sent twice unless an operator accepts it.
//
// The files, in reading order:
//
//   - attempt.go: the types that together make attempts
//   - operator.go: an operator marks a message dead, or deletes it
//   - retry.go: an operator retries a message
//   - resume.go: finds the result of a repeated request, whose attempt an earlier request began
//   - settle.go: ends attempts of dead processes, by what their target partitions contain
//   - plan.go: to which partitions messages may be sent, and which messages must not be sent
//   - memory.go: reads messages, and limits the memory that all loaded messages use
//   - execute.go: claim, publish, finish
//   - metrics.go: the metrics of attempts
//   - config.go: the durations of attempts, and the store and the publisher that they need
package attempt
