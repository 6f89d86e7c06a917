// Package openapi holds the description of the API, written first and by hand,
// and makes a page of it for people. What the API does is left to package rest,
// whose tests compare its router, its requests and its answers with the document.
package openapi

import _ "embed"

// Document is the description, OpenAPI 3.1 in YAML. It must not be changed.
//
//go:embed openapi.yaml
var Document []byte
