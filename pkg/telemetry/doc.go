// Package telemetry provides what programs need to report their state: a logger, a metrics registry, tracing and the
// version. Other packages define their own log lines and metrics.
//
// The files, in reading order:
//
//   - logger.go: the logger
//   - metrics.go: the registry
//   - credentials.go: metrics of credentials files
//   - database.go: metrics of a connection pool
//   - topic_labels.go: which topics become labels
//   - tracing.go: sends spans to a collector
//   - tracing_client.go: the HTTP client that sends spans
//   - tracing_config.go: the settings of tracing
//   - tracing_export.go: counts and limits spans
//   - version.go: how the binary was made, and the name of its deployment
package telemetry
