package entity

// ReplayQuestion asks whether messages can be sent back to a topic.
type ReplayQuestion struct {
	Topic  string   // original; "" for messages of unknown origin
	Groups []string // consumer groups that are expected to read it
}

// ReplayHealth says whether messages can be sent back to a topic, and which consumer groups would read them there.
// Replay is possible when Class is "".
type ReplayHealth struct {
	Topic   string
	Exists  *bool  // nil: not known now
	Allowed bool   // by the configuration and by the topic's name
	Class   string // error class of the obstacle; "" for none
	Reason  string // a sentence for operators
	Groups  []GroupHealth
}

// GroupHealth is the progress of a consumer group in a topic.
type GroupHealth struct {
	Group string
	State GroupState
	// Lag is the number of records between the group's committed offsets and the ends, in the partitions in which it
	// has committed an offset; nil when not known.
	Lag *int64

	Partitions []GroupPartition // of the topic; none when they are not known
}

// GroupPartition is the progress of a consumer group in a partition.
type GroupPartition struct {
	Partition int32
	Committed *int64 // the next offset that the group reads; nil: none, or not known
	End       *int64 // nil: not known
}

// GroupState is the state of a consumer group in a topic.
type GroupState string

// The states of consumer groups.
const (
	GroupRunning GroupState = "running" // it has members and no lag in the partitions in which it has committed
	GroupBehind  GroupState = "behind"  // it has members and a lag
	GroupAbsent  GroupState = "absent"  // it has no members, or the group does not exist
	GroupUnknown GroupState = "unknown" // not known now
)
