package stack

import (
	"strconv"
	"strings"
)

// Environment variables of the stack.
const (
	// DatabaseURLVariable names an existing PostgreSQL server to use instead of starting one, unless Options.Own is
	// set.
	DatabaseURLVariable = "DLQ_STACK_DATABASE_URL"
	// BrokersVariable names existing Kafka brokers, separated by commas, to use instead of starting one, unless
	// Options.Own is set.
	BrokersVariable = "DLQ_STACK_KAFKA_BROKERS"
	// KafkaVersionVariable selects another version of Kafka than the pinned one. If it is set, no stand-in replaces
	// Kafka.
	KafkaVersionVariable = "DLQ_STACK_KAFKA_VERSION"
	// CacheVariable sets another folder for the downloaded artefacts.
	CacheVariable = "DLQ_STACK_CACHE"
	// ForceFallbackVariable, when true, makes Start behave as if no artefact could be installed, so that it uses
	// stand-ins.
	ForceFallbackVariable = "DLQ_STACK_FORCE_FALLBACK"
	// CIVariable, when true, makes the use of a stand-in an error.
	CIVariable = "CI"
)

// environment holds the values of the variables, read once.
type environment struct {
	databaseURL   string
	brokers       []string
	kafkaVersion  string
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
		kafkaVersion:  getenv(KafkaVersionVariable),
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
