// Package openapi contains the OpenAPI document of the API, which is written by hand, and renders it as a web page.
// Package rest implements the API; its tests compare its router, requests and answers with the document.
package openapi

import _ "embed"

// Document is the description, OpenAPI 3.1 in YAML. It must not be modified.
//
//go:embed openapi.yaml
var Document []byte
