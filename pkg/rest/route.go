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
// be repeated.
func (rt route) keyed() bool { return rt.method == http.MethodPost || rt.method == http.MethodPut }

// handler answers a request; its error becomes the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// kind says how long a request may last and in which phases it is answered; see Server.workContext.
type kind int

const (
	probe  kind = iota // answered in every phase
	read               // ends when the client disconnects
	change             // one step, completed even when the client disconnects
	work               // long: continues without the client, until the drain stops it
	stream             // long: ends when the client disconnects, or the drain stops it
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
	undecided      scope = iota // refused for every caller
	open                        // every caller, also without authentication
	self                        // every authenticated caller
	someTopics                  // on any topic; the handler restricts itself to the principal's topics
	oneTopic                    // on the topic of the path
	namedTopic                  // on the topic of the path, also if it has no messages
	oneMessage                  // on the message of the path
	oneRetried                  // on the message of the path, which request.RetriedMessage keeps after reading it
	oneArchived                 // on the archived message of the path
	oneErrorGroup               // on a topic of the error group of the path
	oneRedrive                  // on all topics; for the caller's own redrive, on any topic
	oneQuarantined              // on the dead-letter topic of the quarantined record of the path
	everything                  // on all topics
)
