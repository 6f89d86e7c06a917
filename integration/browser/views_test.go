package browser

import (
	"testing"
)

// sharing: a view that is not shared is seen only by the person who saved it. Everyone sees a shared view, and only its
// owner may delete it.
func sharing(t *testing.T, site *Site) {
	original, _ := site.Topics("views")
	site.Fail("views", late(1))
	people := map[string]token{}
	var all []token
	for _, name := range []string{"alice", "bob"} {
		one := aToken("viewer")
		one.name, one.secret = name, one.secret[:len(one.secret)-3]+name[:2]+"A"
		people[name], all = one, append(all, one)
	}
	address := site.Another("DLQ_AUTH_MODE=token", "DLQ_AUTH_TOKENS_FILE="+tokensFile(t, all...))
	list := "/messages?topic=" + original
	open := func(name string) *Browser {
		b := Open(t, address)
		b.Allow("status of 401")
		b.Visit(list)
		signIn(b, people[name].secret)
		b.WaitText("1 match")
		return b
	}
	alice := open("alice")
	save := func(name string, shared bool) {
		alice.Visit(list)
		alice.Click("Save as a view")
		alice.Fill("Name of the view", name)
		if shared {
			alice.Click("for everyone")
		}
		alice.Click("Save view")
		alice.WaitText("The view was saved")
	}
	save("Own <late>", false)
	save("Late for all", true)
	alice.In(".saved").WaitText("Own <late>")
	alice.Visit(list)
	alice.Look("messages-views")

	bob := open("bob")
	bob.Visit("/messages")
	bob.In(".saved").Click("Late for all")
	bob.WaitText("1 match")
	bob.WaitGone("Own <late>")
	if got := bob.Count(".saved button"); got != 0 {
		t.Errorf("bob may delete %d views, want none of alice's", got)
	}
	alice.Click("Delete the view Late for all")
	alice.WaitText("The view was deleted")
	alice.WaitGone("Late for all")
	alice.In(".saved").WaitText("Own <late>")
}
