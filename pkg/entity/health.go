package entity

// ReplayQuestion asks whether messages can be sent back to a topic.
type ReplayQuestion struct {
	Topic  string   // original; "" for messages of unknown origin
	Groups []string // consumer groups that ought to read it
}

// ReplayHealth is whether messages can be sent back to a topic, and whether
// anybody would read them there. They can while Class is "".
type ReplayHealth struct {
	Topic   string
	Exists  *bool  // nil: nobody can tell now
	Allowed bool   // by the configuration and by the topic's name
	Class   string // error class of what is against it; "" when nothing is
	Reason  string // a sentence for operators
	Groups  []GroupHealth
}

// GroupHealth is how far a consumer group has come in a topic.
type GroupHealth struct {
	Group string
	State GroupState
	// Lag is how many records stand between what it has committed and the ends, in
	// the partitions in which it has committed anything; nil when nobody can tell.
	Lag *int64
}

// GroupState says whether a consumer group reads.
type GroupState string

// The states of consumer groups.
const (
	GroupRunning GroupState = "running" // it has members and, as far as it has committed, no lag
	GroupBehind  GroupState = "behind"  // it has members and a lag
	GroupAbsent  GroupState = "absent"  // it has no members, or there is no such group
	GroupUnknown GroupState = "unknown" // nobody can tell now
)
