package entity

// ReplayQuestion asks whether messages can be sent to an original topic.
type ReplayQuestion struct {
	Topic  string   // original topic; "" for messages of unknown origin
	Groups []string // consumer groups that are expected to read the topic
}

// ReplayHealth says whether messages can be sent to an original topic, and which consumer groups would read them there.
// Messages can be sent when Class is "".
type ReplayHealth struct {
	Topic   string
	Exists  *bool  // whether the topic exists; nil when this cannot be found out now
	Allowed bool   // the configuration and the rules for names of topics allow sending to the topic
	Class   string // error class that an attempt would get; "" for none
	Reason  string // the reason for Class, as a sentence for operators
	Groups  []GroupHealth
}

// GroupHealth is the progress of a consumer group in a topic.
type GroupHealth struct {
	Group string
	State GroupState
	// Lag is the number of offsets between the group's committed offsets and the end offsets, in the partitions for which
	// it has committed an offset; nil when not known.
	Lag *int64

	Partitions []GroupPartition // partitions of the topic; empty when not known
}

// GroupPartition is the progress of a consumer group in a partition.
type GroupPartition struct {
	Partition int32
	Committed *int64 // the next offset that the group reads; nil when the group has committed no offset or the offset is not known
	End       *int64 // end offset; nil when not known
}

// GroupState is the state of a consumer group in a topic.
type GroupState string

// The states of consumer groups.
const (
	GroupRunning GroupState = "running" // the group has members and no lag in the partitions for which it has committed an offset
	GroupBehind  GroupState = "behind"  // the group has members and a lag
	GroupAbsent  GroupState = "absent"  // the group has no members or does not exist
	GroupUnknown GroupState = "unknown" // the state is not known now
)
