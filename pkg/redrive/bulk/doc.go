// Package bulk carries out redrives: the same action on many messages, in batches that processes lease. The store fixes
// the selection when a redrive is created, and any process may continue the redrive. When a process leases a batch
// again, it first settles the attempts that the batch's earlier owner has begun, so that no message is sent twice. A
// canary and limits on the shares of failures and returns stop a redrive that does harm.
//
// The files, in reading order:
//
//   - redrives.go: operators create redrives, wait for them, and change their states
//   - preview.go: what a redrive would do
//   - check.go: to which messages of a preview a patch applies
//   - runner.go: a process works on all active redrives, and renews its leases
//   - run.go: one redrive in one process: the next pass, or the next state
//   - pass.go: goes through the available batches once: lease, load, plan
//   - archived.go: archived messages: selection, preview, restoring them before the action
//   - planning.go: to which partitions messages may be sent, patches, and waiting for leaders
//   - send.go: claims and sends the planned messages, and records the results
//   - change.go: actions other than retry
//   - lease.go: one batch that this process holds, from its earlier owner's attempts to its stored results; how long
//     restored messages are held
//   - bounds.go: how many messages may be sent while outcomes are not known, and waiting for missing targets
//   - progress.go: what consumer groups have consumed; what a redrive waits for
//   - state.go: the fields of a run and a pass, and until when this process holds which batches
//   - trace.go: the span of a batch
//   - keyorder.go: which messages wait for others with the same key
//   - locked.go: messages that another database session locks
//   - patch.go: changes the value of a message
//   - items.go: the results of a batch
//   - store.go: the store, the settings, and the reasons for which messages are skipped
package bulk
