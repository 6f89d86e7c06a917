package console

// done are the sentences that a page begins with after something was done. Addresses
// name them by their keys: no text of an address is ever shown as ours.
var done = map[string]string{
	"retried":        "The message was sent back. Watch its outcome below.",
	"requeued":       "The message is pending again, with no attempts used.",
	"dead":           "The message was given up.",
	"deleted":        "The message was deleted.",
	"origin":         "The original topic was set.",
	"restored":       "The message is among the live ones again, as pending.",
	"noted":          "The group was changed.",
	"redrive":        "The redrive was made. It goes on by itself, also when you leave.",
	"paused":         "The redrive was paused. What was under way ends.",
	"resumed":        "The redrive goes on.",
	"cancelled":      "The redrive was cancelled. What it had not taken stays as it is.",
	"mapped":         "The rules were replaced.",
	"edited":         "The edited message was sent. The stored one is as it was.",
	"signed-out":     "You are signed out.",
	"nothing-chosen": "Nothing was selected.",
}
