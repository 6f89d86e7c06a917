package payload

import "bytes"

// Members calls found for each member of a JSON object, in the order of the text, with the member's decoded name and
// the JSON text of its value. It returns false without a call when object is not the text of one JSON object. The
// function found must not keep name or value.
func Members(object []byte, found func(name, value []byte)) bool {
	if start := bytes.TrimLeft(object, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		return false
	}
	c, ok := open(object)
	return ok && c.object(func(quoted []byte) bool {
		name, from := quoted[1:len(quoted)-1], c.pos
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(unquote(quoted))
		}
		c.skip()
		found(name, c.data[from:c.pos])
		return true
	})
}
