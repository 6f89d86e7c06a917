package deadletter

// wolverine is the dialect of the shared dead-letter topic of the .NET library Wolverine. Its headers contain the
// reason of the failure, but no position.
var wolverine = dialect{
	name:     "wolverine",
	anchors:  [][]string{{"exception-type", "failed-at"}},
	classes:  []string{"exception-type"},
	messages: []string{"exception-message"},
	stacks:   []string{"exception-stack"},
}
