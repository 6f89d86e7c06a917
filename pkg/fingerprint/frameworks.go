package fingerprint

import "strings"

// isFramework reports whether a frame belongs to a known runtime or framework. Frames of runtimes and frameworks do not
// identify a failure.
func isFramework(name string) bool {
	for _, prefix := range frameworks[at(name, 0)] {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

var frameworks = byFirst(
	// Java, Kotlin, Scala
	"java.", "javax.", "jakarta.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "groovy.", "clojure.",
	"akka.", "org.apache.", "org.springframework.", "io.smallrye.", "io.quarkus.", "io.micronaut.", "io.netty.", "io.vertx.",
	"io.projectreactor.", "reactor.", "rx.", "io.reactivex.", "io.confluent.", "io.debezium.", "io.dapr.", "io.grpc.", "io.opentelemetry.",
	"io.micrometer.", "org.eclipse.", "org.jboss.", "org.hibernate.", "org.slf4j.", "ch.qos.", "org.aopalliance.", "org.aspectj.",
	"com.fasterxml.", "com.google.common.", "com.google.protobuf.", "com.google.gson.", "com.zaxxer.", "org.postgresql.", "com.mysql.",
	"oracle.jdbc.", "com.microsoft.sqlserver.", "org.h2.", "feign.", "okhttp3.", "retrofit2.", "net.bytebuddy.", "net.sf.cglib.",
	"net.jodah.", "dev.failsafe.", "io.github.resilience4j.", "org.mockito.", "org.junit.", "com.newrelic.", "datadog.",
	// .NET
	"System.", "Microsoft.", "Confluent.", "MassTransit.", "Wolverine.", "Silverback.", "KafkaFlow.", "NServiceBus.", "MediatR.",
	"Newtonsoft.", "Polly.", "Npgsql.", "Dapper.", "Castle.", "Autofac.",
	// Go
	"runtime.", "runtime/", "net/http.", "net.", "reflect.", "sync.", "context.", "encoding/", "database/sql.", "testing.", "bufio.", "io.(", "fmt.",
	"golang.org/x/", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go", "github.com/IBM/sarama", "github.com/Shopify/sarama",
	"github.com/confluentinc/", "github.com/ThreeDotsLabs/watermill", "go.uber.org/",
	// PHP
	"Illuminate\\", "Symfony\\", "RdKafka\\", "Junges\\Kafka", "GuzzleHttp\\", "Doctrine\\", "Laravel\\", "{main}",
	// Rust
	"std::", "core::", "alloc::", "<core::", "<alloc::", "<std::", "tokio::", "futures", "rdkafka::", "tracing::", "anyhow::", "rust_begin_unwind",
	"__libc_", "<tokio::", "<futures",
)

func byFirst(prefixes ...string) map[byte][]string {
	all := map[byte][]string{}
	for _, p := range prefixes {
		all[p[0]] = append(all[p[0]], p)
	}
	return all
}
