package token

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
)

// Config says where the tokens for OAUTHBEARER come from: a token endpoint, or a file. Its keys are under
// `kafka.sasl.oauth`. The files that it names are read again for each request for a token.
type Config struct {
	// TokenURL is the token endpoint, which is asked for tokens by client credentials (RFC 6749, section 4.4).
	TokenURL string `mapstructure:"token_url"`
	ClientID string `mapstructure:"client_id"`
	// ClientSecretFile holds the client's secret.
	ClientSecretFile string `mapstructure:"client_secret_file"`
	// AssertionFile holds a signed token that authenticates the client instead of a secret (RFC 7523).
	AssertionFile string   `mapstructure:"assertion_file"`
	Scopes        []string `mapstructure:"scopes"`
	// Parameters, such as the audience, are sent to the token endpoint in addition to the parameters of RFC 6749.
	Parameters []Pair `mapstructure:"parameters"`
	// CAFile is a PEM file of the token endpoint's certificate authority; "" for those of the system.
	CAFile string `mapstructure:"ca_file"`
	// TokenFile contains the token itself. Another program, such as Kubernetes, must replace the file before the token
	// expires.
	TokenFile string `mapstructure:"token_file"`
	// Extensions are sent to the brokers with the token (RFC 7628, section 3.1).
	Extensions []Pair `mapstructure:"extensions"`
}

// Pair is a name and a value.
type Pair struct {
	Name  string `mapstructure:"name"`
	Value string `mapstructure:"value"`
}

// ownParameters are the parameters that Config.Parameters must not contain, because other settings determine them. The
// client's secret, for example, must come from its file.
var ownParameters = []string{"grant_type", "scope", "client_id", "client_secret", "client_assertion", "client_assertion_type"}

var (
	parameterName  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`) // RFC 6749, appendix A
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7E \t\r\n]+$`)
)

// Problems returns every problem, with its key.
func (c Config) Problems() []error {
	var problems []error
	add := func(key, text string, args ...any) {
		problems = append(problems, fmt.Errorf("kafka.sasl.oauth."+key+": "+text, args...))
	}
	switch {
	case c.TokenURL == "" && c.TokenFile == "":
		add("token_url", "it or token_file is needed")
	case c.TokenURL != "" && c.TokenFile != "":
		add("token_file", "not together with token_url")
	case c.TokenURL != "":
		c.endpointProblems(add)
	default:
		for key, set := range map[string]bool{
			"client_id": c.ClientID != "", "client_secret_file": c.ClientSecretFile != "", "assertion_file": c.AssertionFile != "",
			"scopes": len(c.Scopes) > 0, "parameters": len(c.Parameters) > 0, "ca_file": c.CAFile != "",
		} {
			if set {
				add(key, "only with token_url")
			}
		}
	}
	for i, e := range c.Extensions {
		key := fmt.Sprintf("extensions[%d]", i)
		if !extensionName.MatchString(e.Name) || e.Name == "auth" {
			add(key, "name %q: want letters, and not auth", e.Name)
		}
		if !extensionValue.MatchString(e.Value) {
			add(key, "value: want at least one printable ASCII character, and no other")
		}
	}
	return problems
}

func (c Config) endpointProblems(add func(key, text string, args ...any)) {
	if err := checkURL(c.TokenURL); err != nil {
		add("token_url", "%w", err)
	}
	if c.ClientID == "" {
		add("client_id", "required with token_url")
	}
	if (c.ClientSecretFile == "") == (c.AssertionFile == "") {
		add("client_secret_file", "either it or assertion_file is needed with token_url")
	}
	for i, p := range c.Parameters {
		key := fmt.Sprintf("parameters[%d]", i)
		switch {
		case !parameterName.MatchString(p.Name):
			add(key, "name %q: want letters, digits, and . _ -", p.Name)
		case slices.Contains(ownParameters, p.Name):
			add(key, "name %q: other settings determine it", p.Name)
		}
	}
}

// checkURL accepts https, and http on this machine only, because the request has the client's secret. The error does
// not quote the URL, because a URL can have a password in it.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Hostname() == "":
		return errors.New("not a URL with a host")
	case u.User != nil:
		return errors.New("a URL with a user or a password; use client_id and client_secret_file")
	case u.Fragment != "":
		return errors.New("a URL with a fragment")
	case u.Scheme == "http" && isLocal(u.Hostname()):
		return nil
	case u.Scheme != "https":
		return errors.New("want https, or http on localhost")
	}
	return nil
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
