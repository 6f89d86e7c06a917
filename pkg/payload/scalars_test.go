package payload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestScalars(t *testing.T) {
	t.Parallel()
	masks := check.Must(NewMasks(MaskConfig{Payload: []string{"$.card", "$.items[*].secret"}}))(t)
	for text, want := range map[string]string{
		`{"a":1,"b":"x","c":null,"d":true}`:                        `$.a=1 $.b=x $.c=null $.d=true`,
		`{"card":{"number":4},"items":[{"secret":1,"sku":"s"},2]}`: `$.items[*].sku=s $.items[*]=2`,
		`7`:                            `$=7`,
		`[[1],[]]`:                     `$[*][*]=1`,
		`not json`:                     ``,
		`[1,2,3,4,5,6,7,8]`:            `$[*]=1 $[*]=2 $[*]=3 $[*]=4 $[*]=5 $[*]=6 $[*]=7 $[*]=8`,
		`[1,2,3,4,5,6,7,8,9,10,11,12]`: `$[*]=1 $[*]=2 $[*]=3 $[*]=4 $[*]=5 $[*]=6 $[*]=7 $[*]=8 $[*]=9`,
	} {
		var got []string
		masks.Read([]byte(text), nil).Scalars(10, func(path string, v Value) { got = append(got, fmt.Sprintf("%s=%s", path, v.Text)) })
		check.Same(t, strings.Join(got, " "), want, "scalars of %s", text)
	}
}
