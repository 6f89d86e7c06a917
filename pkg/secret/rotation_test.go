package secret

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errRefused = errors.New("the server does not take it")
	errAway    = errors.New("the server is away")
	errGone    = errors.New("the file is gone")
)

// site contains a file with a secret, and acts as a server that accepts one secret.
type site struct {
	file    string // content of the file; "" when the file does not exist
	server  string
	away    bool
	tries   []string
	renewed func() // called at the end of each call of try, to change the site; nil for no call
}

func (s *site) read() (string, error) {
	if s.file == "" {
		return "", errGone
	}
	return s.file, nil
}

func (s *site) try(secret string) error {
	s.tries = append(s.tries, secret)
	defer func() {
		if s.renewed != nil {
			s.renewed()
		}
	}()
	switch {
	case s.away:
		return errAway
	case secret != s.server:
		return errRefused
	}
	return nil
}

func (s *site) signIn(ctx context.Context, r *Rotation[string]) (string, error) {
	s.tries = nil
	return r.SignIn(ctx, func(err error) bool { return errors.Is(err, errRefused) }, s.try)
}

func TestRotation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before string // secret that the server accepted in an earlier sign-in; "" when there was none
		site   site
		want   string // secret that SignIn must return; "" when SignIn must return an error
		tries  string
		took   time.Duration
		errs   []error
	}{
		{name: "UsesTheFile", before: "old", site: site{file: "new", server: "new"}, want: "new", tries: "new"},
		{name: "AsksOnceWhenTheServerIsAway", before: "old", site: site{file: "new", away: true}, tries: "new", errs: []error{errAway}},
		{name: "StartsWithoutAFile", site: site{}, tries: "", errs: []error{errGone}},
		{name: "DoesNotRepeatOrWaitBeforeItWasEverIn", site: site{file: "bad", server: "good"}, tries: "bad", errs: []error{errRefused}},
		{name: "KeepsTheLastWhileTheFileIsGone", before: "old", site: site{server: "old"}, want: "old", tries: "old"},
		{name: "KeepsTheLastWhileTheFileIsHalfWritten", before: "old", site: site{file: "ne", server: "old"}, want: "old", tries: "ne old"},
		{name: "SaysBothWhenTheFileIsGoneAndTheLastRefused", before: "old", site: site{server: "new"}, tries: "old", took: rotationPatience, errs: []error{errGone, errRefused}},
		{name: "GivesUpAfterAWhile", before: "old", site: site{file: "old", server: "new"}, tries: "old", took: rotationPatience, errs: []error{errRefused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &c.site
				r := NewRotation(s.read)
				r.accepted = c.before
				began := time.Now()
				got, err := s.signIn(t.Context(), r)
				if got != c.want || (err == nil) != (c.want != "") || strings.Join(s.tries, " ") != c.tries {
					t.Errorf("signed in with %q, %v after %q, want %q after %q", got, err, s.tries, c.want, c.tries)
				}
				for _, want := range c.errs {
					if !errors.Is(err, want) {
						t.Errorf("got error %v, want %v in it", err, want)
					}
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if want := c.want; want != "" && r.Accepted() != want {
					t.Errorf("accepted %q, want %q", r.Accepted(), want)
				}
			})
		})
	}
}

func TestRotation_FileChangesInBetween(t *testing.T) {
	t.Parallel()
	s := &site{file: "old", server: "new"}
	s.renewed = func() { s.file = "new" }
	if got, err := s.signIn(t.Context(), NewRotation(s.read)); got != "new" || err != nil || !slices.Equal(s.tries, []string{"old", "new"}) {
		t.Errorf("signed in with %q, %v after %q, want new as the second", got, err, s.tries)
	}
}

func TestRotation_FileComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{file: "old", server: "new"}
		began := time.Now()
		r := NewRotation(func() (string, error) {
			if time.Since(began) >= time.Second {
				s.file = "new"
			}
			return s.read()
		})
		r.accepted = "old"
		if got, err := s.signIn(t.Context(), r); got != "new" || err != nil {
			t.Errorf("got %q, %v, want the file that came a second later", got, err)
		}
	})
}

// When the file keeps its refused secret, only the first sign-in waits for a new secret.
func TestRotation_WaitsInVainOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{file: "old", server: "new"}
		r := NewRotation(s.read)
		r.accepted = "old"
		began := time.Now()
		for range 3 {
			_, _ = s.signIn(t.Context(), r)
		}
		if took := time.Since(began); took != rotationPatience {
			t.Errorf("three sign-ins took %s, want %s", took, rotationPatience)
		}
		s.file = "other"
		if _, _ = s.signIn(t.Context(), r); time.Since(began) != 2*rotationPatience {
			t.Error("after the file changed it did not wait again")
		}
	})
}

func TestRotation_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{file: "old", server: "new"}
		r := NewRotation(s.read)
		r.accepted = "old"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		began := time.Now()
		if _, err := s.signIn(ctx, r); !errors.Is(err, errRefused) || time.Since(began) != time.Second/2 {
			t.Errorf("got %v after %s, want the refusal after half a second", err, time.Since(began))
		}
		if r.hopeless != "" {
			t.Error("it counted as waited for, want the next one to wait")
		}
	})
}
