// Package rest is the HTTP API: it turns requests into calls of a store and a redriver, and their results into JSON.
// It makes no decisions about messages: states, claims and publishing belong to the packages of its interfaces.
// The resources are in handlers, the JSON of their answers is in wire.
//
// Reading order:
//
//   - server.go: what a server consists of, its options
//   - serve.go: listening and the drain
//   - routes.go: the table of all routes with their permissions
//   - handlers.go: the resources, each with the dependencies that it uses
//   - handler.go: the steps before and after the handler of a route or of a mounted page
//   - middleware.go: the steps for every request: log, metrics, panics
//   - auth.go: the principal of a request, failed sign-ins, requests that come from pages of other sites
//   - policy.go: the permission of a request
//   - replica.go: reads that a replica of the database may answer
//   - keyed.go: Idempotency-Keys
//   - account.go: how many answers and bytes the requests of a client may hold in memory
//   - gate.go: handlers that take too long
//   - health.go: liveness and readiness
//   - document.go: the document of the API
//   - route.go: the columns of the table of routes
//   - interfaces.go: the interfaces that the server needs of other packages, and their defaults
//   - config.go: settings
//   - errors.go: answers to errors
//   - metrics.go: counters of requests
//   - exchange.go: the state of a request and its answer, its span, and the pace of its client
package rest
