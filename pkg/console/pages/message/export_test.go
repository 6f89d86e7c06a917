package message

import "net/http"

const (
	MaxNodes   = maxNodes
	MaxNesting = maxNesting
	MaxText    = maxText
	MaxHeaders = maxHeaders
	MaxEdited  = maxEdited
	AsRemove   = asRemove
)

var (
	TreeOf        = treeOf
	FoldStack     = foldStack
	ActsOf        = actsOf
	DecodeHeaders = decodeHeaders
	DraftOf       = draftOf
	OneBreak      = oneBreak
)

// NewHeader returns an empty row of the form's headers.
func NewHeader() editHeader { return editHeader{value: value{As: asText}} }

// CurlWithToken returns the curl command for a request to an API that needs a token.
func CurlWithToken(r *http.Request, method, path, body string) string {
	return curl(r, true, method, path, body)
}
