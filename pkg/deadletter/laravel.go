package deadletter

// laravel is laravel-kafka, which names the original topic only in the dead-letter topic's name.
var laravel = dialect{
	name:     "laravel-kafka",
	anchors:  [][]string{{"kafka_throwable_class_name"}},
	classes:  []string{"kafka_throwable_class_name"},
	messages: []string{"kafka_throwable_message"},
}
