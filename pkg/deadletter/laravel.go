package deadletter

// laravel is the dialect of laravel-kafka. It names the original topic only in the name of the dead-letter topic.
var laravel = dialect{
	name:     "laravel-kafka",
	anchors:  [][]string{{"kafka_throwable_class_name"}},
	classes:  []string{"kafka_throwable_class_name"},
	messages: []string{"kafka_throwable_message"},
}
