package shop

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// knownEmails limits how many e-mail addresses of users the sink remembers. A forgotten address can be used again.
const knownEmails = 10_000

// newUsers returns a Kafka Connect sink that writes users to a table with unique e-mail addresses.
func newUsers(prefix string, log *logbook) *service {
	connector, dead := prefix+UsersConnector, prefix+UsersDeadLetters
	owners := newRecent[string, string](knownEmails)
	return &service{
		group: "connect-" + connector, topic: prefix + UsersTopic, noun: "user", log: log,
		handle: func(rec *kgo.Record) *failure { return handleUser(rec, owners) },
		deadLetter: func(rec *kgo.Record, f *failure) *kgo.Record {
			headers := connectHeaders(connector)(rec, f)
			return &kgo.Record{Topic: dead, Key: rec.Key, Value: rec.Value, Headers: headers, Timestamp: rec.Timestamp}
		},
		accepted: newRecent[string, struct{}](acceptedIDs),
	}
}

func handleUser(rec *kgo.Record, owners *recent[string, string]) *failure {
	var user userBody
	if d := read(rec.Value, &user); d != sound {
		return unreadableUser(d)
	}
	if owner, taken := owners.get(user.Email); taken && owner != user.ID {
		return duplicateEmail(user.Email)
	}
	owners.put(user.Email, user.ID)
	return nil
}

const (
	jdbcTask      = "io.confluent.connect.jdbc.sink.JdbcSinkTask"
	jsonConverter = "org.apache.kafka.connect.json.JsonConverter"
)

func duplicateEmail(email string) *failure {
	violation := "ERROR: duplicate key value violates unique constraint \"users_email_key\"\n  Detail: Key (email)=(" + email + ") already exists."
	return &failure{stage: "TASK_PUT", executing: jdbcTask, thrown: &throwable{
		class:   "org.apache.kafka.connect.errors.ConnectException",
		message: "java.sql.SQLException: " + violation,
		at: []string{
			"io.confluent.connect.jdbc.sink.JdbcSinkTask.put(JdbcSinkTask.java:103)",
			"org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:606)",
		},
		cause: &throwable{class: "java.sql.SQLException", message: violation},
	}}
}

func unreadableUser(d defect) *failure {
	if d == tombstone {
		return &failure{stage: "TASK_PUT", executing: jdbcTask, thrown: &throwable{
			class:   "org.apache.kafka.connect.errors.ConnectException",
			message: "Sink connector 'users-service' is configured with 'delete.enabled=false' and requires records with a non-null value, but found a record with a null value",
			at:      []string{"io.confluent.connect.jdbc.sink.RecordValidator.lambda$requiresValue$2(RecordValidator.java:83)"},
		}}
	}
	return &failure{stage: "VALUE_CONVERTER", executing: jsonConverter, thrown: &throwable{
		class:   "org.apache.kafka.connect.errors.DataException",
		message: "Converting byte[] to Kafka Connect data failed due to serialization error: ",
		at: []string{
			"org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:333)",
			"org.apache.kafka.connect.runtime.WorkerSinkTask.convertValue(WorkerSinkTask.java:567)",
		},
		cause: &throwable{
			class:   "org.apache.kafka.common.errors.SerializationException",
			message: "com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input within/between Object entries",
			at:      []string{"org.apache.kafka.connect.json.JsonDeserializer.deserialize(JsonDeserializer.java:69)"},
		},
	}}
}
