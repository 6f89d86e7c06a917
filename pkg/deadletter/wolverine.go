package deadletter

// wolverine is the .NET library's shared dead-letter topic; its records have the reason of the failure, but no
// position.
var wolverine = dialect{
	name:     "wolverine",
	anchors:  [][]string{{"exception-type", "failed-at"}},
	classes:  []string{"exception-type"},
	messages: []string{"exception-message"},
	stacks:   []string{"exception-stack"},
}
