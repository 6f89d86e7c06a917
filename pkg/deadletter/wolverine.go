package deadletter

// wolverine is the .NET library's shared dead-letter topic; it says why but not where.
var wolverine = dialect{
	name:     "wolverine",
	anchors:  [][]string{{"exception-type", "failed-at"}},
	classes:  []string{"exception-type"},
	messages: []string{"exception-message"},
	stacks:   []string{"exception-stack"},
}
