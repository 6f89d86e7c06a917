package stack

import (
	"strconv"
	"strings"
)

// The variables that the stack listens to.
const (
	// DatabaseURLVariable names a PostgreSQL server to use instead of starting one.
	DatabaseURLVariable = "DLQ_STACK_DATABASE_URL"
	// BrokersVariable names Kafka brokers to use instead of starting one, by comma.
	BrokersVariable = "DLQ_STACK_KAFKA_BROKERS"
	// CacheVariable moves the folder that keeps the fetched artefacts.
	CacheVariable = "DLQ_STACK_CACHE"
	// ForceFallbackVariable acts as if no artefact could be had, when true.
	ForceFallbackVariable = "DLQ_STACK_FORCE_FALLBACK"
	// CIVariable makes a fallback a failure, when true.
	CIVariable = "CI"
)

// environment is what the variables say, read once.
type environment struct {
	databaseURL   string
	brokers       []string
	cache         string
	forceFallback bool
	ci            bool
	path          string
	javaHome      string
}

func readEnvironment(getenv func(string) string) environment {
	return environment{
		databaseURL:   getenv(DatabaseURLVariable),
		brokers:       splitList(getenv(BrokersVariable)),
		cache:         getenv(CacheVariable),
		forceFallback: isTrue(getenv(ForceFallbackVariable)),
		ci:            isTrue(getenv(CIVariable)),
		path:          getenv("PATH"),
		javaHome:      getenv("JAVA_HOME"),
	}
}

func isTrue(value string) bool {
	b, err := strconv.ParseBool(value)
	return err == nil && b
}

func splitList(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
