// Package auth identifies who sends a request and what they may do, by configured tokens or by tokens that an OpenID
// Connect issuer signed. It implements roles on topics; the routes decide which role they need.
//
// The files, in reading order:
//
//   - auth.go: who sends a request, by the configured mode
//   - signin.go: signs people in at an issuer
//   - tokens.go: bearer tokens of the configuration
//   - oidc.go: bearer tokens that an issuer signed
//   - revocations.go: tokens and sessions that are invalid before they expire
//   - signer.go: signs data that clients send back
//   - directory.go: requests to the issuer: its metadata and keys
//   - config.go: the settings
//   - issuer_cache.go: keeps an answer of the issuer for some time
//   - claims.go: reads the claims of a token
//   - token.go: generates tokens
//   - reload.go: reads files again when they have changed
//   - principal.go: roles on topics, and what they permit
package auth
