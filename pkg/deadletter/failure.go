package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// failure reads what the dialect's latest hop says. The message is "" when it
// says nothing.
func (d *dialect) failure(h headers) (entity.Failure, string) {
	block := d.latestBlock(h)
	f := entity.Failure{
		Dialect:       d.name,
		Class:         cleanText(d.pick(block, d.causes), MaxErrorClass),
		StackTrace:    cleanText(d.pick(h, d.stacks), MaxStackTrace),
		ConsumerGroup: cleanText(d.pick(block, d.groups), MaxConsumerGroup),
		Attempts:      attempts(d.pick(h, d.attempts)),
	}
	if f.Class == "" {
		f.Class = cleanText(d.pick(h, d.classes), MaxErrorClass)
	}
	message := cleanText(d.pick(h, d.messages), MaxErrorMessage)
	if d.refineFailure != nil {
		return d.refineFailure(h, f, message)
	}
	return f, message
}

// pick returns the latest value of the first key that says anything.
func (d *dialect) pick(h headers, keys []string) []byte {
	for _, key := range keys {
		if value := d.latest(h, key); len(value) > 0 {
			return value
		}
	}
	return nil
}
