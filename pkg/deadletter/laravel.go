package deadletter

// laravel is laravel-kafka, which does not name the topic: only the dead-letter
// topic's name tells.
var laravel = dialect{
	name:     "laravel-kafka",
	anchors:  [][]string{{"kafka_throwable_class_name"}},
	classes:  []string{"kafka_throwable_class_name"},
	messages: []string{"kafka_throwable_message"},
}
