package diff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestDifferenceIsByLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was, now, want string
		space          bool
	}{
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{|  "a": 1,|-  "b": 2|+  "b": 3|}|`, false},
		{`{"a": 1}`, `{"a":1}`, "", true},
		{"a\nb\nc", "a\nx\nc", "a|-b|+x|c|", false},
		{"a\nb\nc\nd\ne\nf\ng\nh", "a\nb\nc\nd\nX\nf\ng\nh", "…2 unchanged lines|c|d|-e|+X|f|g|…1 unchanged line|", false},
		{"a", "", "-a|+|", false},
		{"a", "a", "…1 unchanged line|", false},
	} {
		lines, space := Texts(c.was, c.now)
		var got strings.Builder
		for _, l := range lines {
			got.WriteString(l.Mark + l.Text + "|")
		}
		if space != c.space || c.want != got.String() {
			t.Errorf("Texts(%q, %q) = %s, %t, want %s, %t", c.was, c.now, got.String(), space, c.want, c.space)
		}
	}
	many := strings.Repeat("a\n", 5000)
	if lines, _ := Texts(many+"x", strings.Repeat("b\n", 5000)+"x"); len(lines) != maxDiff || lines[0].Mark != "-" || lines[maxDiff-1] != (Line{"…", "4,002 more lines new"}) {
		t.Errorf("got %d lines up to %v, want %d of both sides and how many are left", len(lines), lines[len(lines)-1], maxDiff)
	}
}

// The common beginning and end of both sides are not compared; the result must have as many removed and added lines as
// if they were compared, and must show or count each line of the first text.
func TestDifferenceOfPartsIsThatOfTheWhole(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		lines := make([]string, random.IntN(14))
		for i := range lines {
			lines[i] = string("abc"[random.IntN(3)])
		}
		return strings.Join(lines, "\n")
	}
	for range 3000 {
		both, end := some(), some()
		a, b := both+some()+end, both+some()+end
		count := func(lines []Line) (marks string) {
			n := map[string]int{}
			for _, l := range lines {
				n[l.Mark]++
			}
			return fmt.Sprint(n["-"], n["+"])
		}
		whole := difference(strings.Split(a, "\n"), strings.Split(b, "\n"))
		got := Lines(a, b)
		check.Require(t, count(got) == count(whole), "%q, %q: got %v, want as many lines marked as in %v", a, b, got, whole)
		at, lines := 0, strings.Split(a, "\n")
		for _, l := range got {
			switch l.Mark {
			case "…":
				var n int
				if _, err := fmt.Sscan(l.Text, &n); err != nil {
					t.Fatal(err)
				}
				at += n
			case "", "-":
				if at >= len(lines) || lines[at] != l.Text {
					t.Fatalf("%q, %q: got %v, want line %d to be one of the first", a, b, got, at)
				}
				at++
			}
		}
		if at != len(lines) {
			t.Fatalf("%q, %q: got %v, of %d lines, want all %d shown or counted", a, b, got, at, len(lines))
		}
	}
}
