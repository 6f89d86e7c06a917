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

// feature names what a route needs a database for, such as "the archive". It is the subject of the sentence in the
// error.
type feature string

// everyStore is the feature of routes that work without a database.
const everyStore feature = ""

// keyed reports whether requests to a route may have an Idempotency-Key. These are POST and PUT; DELETE and PATCH can
// safely be repeated without a key. An erasure may have a key as well: when it is repeated, its answer says what is
// left of the message, for which the server must recognise the repetition.
func (rt route) keyed() bool {
	erases := rt.method == http.MethodDelete && rt.permission.scope == oneArchived
	return rt.method == http.MethodPost || rt.method == http.MethodPut || erases
}

// handler answers a request; its error becomes the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// kind says how long a request to a route may last, and in which phases of the server it is answered; see
// Server.workContext.
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

// scope says on which topics a principal needs the role of a route, mostly by the object that the request names.
type scope int

const (
	undecided      scope = iota // refuses every caller
	open                        // accepts every caller, even without credentials
	self                        // accepts every authenticated caller
	someTopics                  // the role on at least one topic; the handler uses only the principal's topics
	oneTopic                    // the role on the topic in the path; also accepts callers who may not see this topic (see permitTopic)
	namedTopic                  // the role on the topic in the path, even if the topic has no messages
	oneMessage                  // the role on the topic of the message in the path
	oneRetried                  // like oneMessage; the check keeps the message for the handler (see request.RetriedMessage)
	oneArchived                 // the role on the topic of the archived message in the path
	oneErrorGroup               // the role on a topic of the error group in the path
	oneRedrive                  // the role on all topics or, for a redrive that the caller created, on its topics (see policy.permitRedrive)
	oneQuarantined              // the role on the dead-letter topic of the quarantined record in the path
	everything                  // role on all topics
)
