package rest

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// route is a row of the table of routes.
type route struct {
	method     string
	path       string
	kind       kind
	permission permission
	handle     handler
	feature
}

// feature names the purpose for which a route needs a database, as the subject of a sentence.
type feature string

// everyStore is the feature of routes that work without a database.
const everyStore feature = ""

// keyed reports whether requests may have an Idempotency-Key: all changes except DELETE and PATCH, which can safely
// be repeated. The repetition of an erasure says what is left of the message, so it has to be recognised.
func (rt route) keyed() bool {
	erases := rt.method == http.MethodDelete && rt.permission.scope == oneArchived
	return rt.method == http.MethodPost || rt.method == http.MethodPut || erases
}

// handler answers a request; its error becomes the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// kind says how long a request may last and in which phases it is answered; see Server.workContext.
type kind int

const (
	probe  kind = iota // answered in every phase of the server
	read               // a read, which ends when the client disconnects
	change             // a change in one step, which is completed even when the client disconnects
	work               // a long change, which continues without the client until the drain stops it
	stream             // a long read, which ends when the client disconnects or the drain stops it
)

// permission is the permission that a route requires. The zero value refuses every caller, so that a route without a
// policy stays closed.
type permission struct {
	role  auth.Role // "" where scope is open or self
	scope scope
}

// scope is the object of a route on which the role is needed.
type scope int

const (
	undecided      scope = iota // refuses every caller
	open                        // accepts every caller, also without authentication
	self                        // accepts every authenticated caller
	someTopics                  // role on any topic; the handler uses only the principal's topics
	oneTopic                    // role on the topic of the path
	namedTopic                  // role on the topic of the path, also if it has no messages
	oneMessage                  // role on the topic of the path's message
	oneRetried                  // like oneMessage, and request.RetriedMessage keeps the message that was read
	oneArchived                 // role on the topic of the path's archived message
	oneErrorGroup               // role on a topic of the path's error group
	oneRedrive                  // role on all topics; for the caller's own redrive, on any topic
	oneQuarantined              // role on the dead-letter topic of the path's quarantined record
	everything                  // role on all topics
)
