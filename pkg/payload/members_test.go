package payload

import (
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestMembersAreThoseOfOneObject(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{}`: "", ` { "a" : 1 , "b":{"c":[1,{"d":2}]},"a":"}" } `: `a=1 b={"c":[1,{"d":2}]} a="}"`,
		`{"\u0061\"b":"x\"y","":null}`: `a"b="x\"y" =null`,
		`[{"a":1}]`:                    "none", `"{}"`: "none", ``: "none", ` `: "none", `{"a":1`: "none", `{"a":1} x`: "none", `{"a"}`: "none", `{`: "none",
	} {
		var found []string
		if !Members([]byte(object), func(name, value []byte) { found = append(found, string(name)+"="+string(value)) }) {
			check.Len(t, found, 0, "members of %s", object)
			found = []string{"none"}
		}
		check.Equal(t, strings.Join(found, " "), want, "members of %s", object)
	}
}
