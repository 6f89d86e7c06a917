package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// CallbackPath is the path to which the issuer redirects browsers.
const CallbackPath = "/sign-in/callback"

// The authentication modes.
const (
	ModeNone  = "none"  // every client that reaches the port has all roles
	ModeToken = "token" // requests need one of the configured tokens
	ModeOIDC  = "oidc"  // requests need a token that the issuer has signed
)

// Config holds the settings of authentication and roles.
type Config struct {
	Mode string `mapstructure:"mode"`
	// Tokens and TokensFile are for mode token. The file holds the same list as YAML, and is read again when it has
	// changed.
	Tokens     []TokenConfig `mapstructure:"tokens"`
	TokensFile string        `mapstructure:"tokens_file"`
	OIDC       OIDCConfig    `mapstructure:"oidc"` // settings of mode oidc

	// RevokedFile lists revoked credentials, one per line: the SHA-256, in hex, of a token or of a session's id, or the
	// jti of a token. SigningKeyFile holds the keys that sign cursors, one per line: the first key signs, all keys
	// verify. Without SigningKeyFile the keys come from the database or, without a database, are random. Both files are
	// read again when they have changed.
	RevokedFile    string `mapstructure:"revoked_file"`
	SigningKeyFile string `mapstructure:"signing_key_file"`
}

// TokenConfig describes a token of mode token. It contains only the hash of the token.
type TokenConfig struct {
	Name      string        `mapstructure:"name" yaml:"name"`             // name of the principal
	SHA256    string        `mapstructure:"sha256" yaml:"sha256"`         // hash of the whole token, 64 hex digits
	ExpiresAt string        `mapstructure:"expires_at" yaml:"expires_at"` // time in RFC 3339, in quotes
	Grants    []GrantConfig `mapstructure:"grants" yaml:"grants"`
}

// GrantConfig is a role on topics. Topics are globs or regular expressions. The glob "*" in the list means all
// messages, including those whose topic is unknown.
type GrantConfig struct {
	Role   Role     `mapstructure:"role" yaml:"role"`
	Topics []string `mapstructure:"topics" yaml:"topics"`
}

// OIDCConfig describes the issuer whose tokens are accepted, and the claims that are read.
type OIDCConfig struct {
	Issuer   string `mapstructure:"issuer"`   // URL of the issuer, equal to the tokens' claim iss
	Audience string `mapstructure:"audience"` // the tokens' claim aud must contain it or ClientID
	CAFile   string `mapstructure:"ca_file"`  // PEM file of the issuer's certificate authority; "": the system's
	// Algorithms are the accepted signature algorithms. Algorithms with shared secrets are never accepted.
	Algorithms []string      `mapstructure:"algorithms"`
	Leeway     time.Duration `mapstructure:"leeway"`  // accepted difference between the clocks of issuer and program
	Timeout    time.Duration `mapstructure:"timeout"` // time limit of a request to the issuer
	// NameClaim is the name of the claim of the token that contains the principal's name; when that claim is missing or
	// empty, the claim sub is used. RolesClaim is the name of the claim whose values are compared with those of Grants.
	// A dot in RolesClaim leads to a member of a nested object.
	NameClaim  string             `mapstructure:"name_claim"`
	RolesClaim string             `mapstructure:"roles_claim"`
	Grants     []ClaimGrantConfig `mapstructure:"grants"`

	// ClientID identifies this program at the issuer when it signs people in; "" turns sign-in off. Tokens whose aud
	// contains the client id are accepted like tokens whose aud contains Audience.
	ClientID string `mapstructure:"client_id"`
	// ClientSecretFile holds the client's secret, and is read at every sign-in; "" for a client without a secret.
	ClientSecretFile string   `mapstructure:"client_secret_file"`
	Scopes           []string `mapstructure:"scopes"`
	// RedirectURL is the URL of the console's CallbackPath, as browsers see it.
	RedirectURL string `mapstructure:"redirect_url"`
}

// ClaimGrantConfig gives a role to principals with the value in their roles claim.
type ClaimGrantConfig struct {
	Value  string   `mapstructure:"value"`
	Role   Role     `mapstructure:"role"`
	Topics []string `mapstructure:"topics"`
}

const (
	// everything is the pattern of all topics, and of messages whose topic is unknown.
	everything = "*"

	maxName    = 200
	maxLeeway  = 5 * time.Minute
	maxTimeout = 10 * time.Second
)

// algorithms are the supported signature algorithms, all with a public key.
var algorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// reserved are the names that the audit trail uses for the program itself and for the clients of mode none.
var reserved = []string{Anonymous, entity.ActorSettler, entity.ActorAuto, entity.ActorIngest, entity.ActorHeartbeat}

// DefaultConfig turns authentication off.
func DefaultConfig() Config {
	return Config{
		Mode: ModeNone,
		OIDC: OIDCConfig{
			Algorithms: []string{"RS256", "ES256"},
			Leeway:     30 * time.Second,
			Timeout:    5 * time.Second,
			NameClaim:  "preferred_username",
			RolesClaim: "groups",
			Scopes:     []string{"openid", "profile"},
		},
	}
}

// Validate reports every invalid setting, by its key. It ignores the settings of modes other than Mode, but always
// checks Tokens.
func (c Config) Validate() error {
	errs := validateTokens("tokens", c.Tokens)
	switch c.Mode {
	case ModeNone:
	case ModeToken:
		if len(c.Tokens) == 0 && c.TokensFile == "" {
			errs = append(errs, errors.New("tokens: mode token needs tokens or tokens_file"))
		}
	case ModeOIDC:
		errs = append(errs, c.OIDC.problems("oidc")...)
	default:
		errs = append(errs, fmt.Errorf("mode: must be none, token or oidc, is %q", c.Mode))
	}
	errs = spread(errs)
	for i, err := range errs {
		errs[i] = fmt.Errorf("auth.%w", err)
	}
	return errors.Join(errs...)
}

// spread splits errors that were joined into single errors, so that "auth." can precede each of them.
func spread(errs []error) (all []error) {
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, spread(joined.Unwrap())...)
		} else {
			all = append(all, err)
		}
	}
	return all
}

// validateTokens checks the configured tokens. One principal may have several tokens, because replacing a token needs
// two for a while. No two entries may have the same token.
func validateTokens(parent string, tokens []TokenConfig) (errs []error) {
	seen := map[string]string{}
	for i, t := range tokens {
		key := fmt.Sprintf("%s[%d]", parent, i)
		errs = append(errs, t.problems(key)...)
		sum := strings.ToLower(t.SHA256)
		if first, twice := seen[sum]; twice && sum != "" {
			errs = append(errs, fmt.Errorf("%s.sha256: is already that of %s", key, first))
		}
		seen[sum] = key
	}
	return errs
}

func (t TokenConfig) problems(key string) (errs []error) {
	if err := checkName(t.Name); err != nil {
		errs = append(errs, fmt.Errorf("%s.name: %w", key, err))
	}
	if sum, err := hex.DecodeString(t.SHA256); err != nil || len(sum) != hashSize {
		errs = append(errs, fmt.Errorf("%s.sha256: must be the 64 hex digits of the token's SHA-256", key))
	}
	if _, err := time.Parse(time.RFC3339, t.ExpiresAt); err != nil {
		errs = append(errs, fmt.Errorf("%s.expires_at: must be a time such as 2027-01-31T00:00:00Z", key))
	}
	return append(errs, grantsProblems(key, t.Grants)...)
}

func grantsProblems(parent string, list []GrantConfig) (errs []error) {
	if len(list) == 0 {
		errs = append(errs, fmt.Errorf("%s.grants: at least one is required", parent))
	}
	for i, g := range list {
		if _, err := g.grant(fmt.Sprintf("%s.grants[%d]", parent, i)); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// grant parses a grant. Its errors begin with the parameter key and the name of the field.
func (g GrantConfig) grant(key string) (Grant, error) {
	var errs []error
	if !slices.Contains(Roles(), g.Role) {
		errs = append(errs, fmt.Errorf("%s.role: must be viewer, operator, admin, edit or unmask, is %q", key, g.Role))
	}
	if slices.Contains(g.Topics, everything) {
		return Grant{Role: g.Role, All: true}, errors.Join(errs...)
	}
	topics, err := entity.ParseTopicPatterns(key+".topics", g.Topics...)
	return Grant{Role: g.Role, Topics: topics}, errors.Join(append(errs, err)...)
}

func (c OIDCConfig) problems(key string) (errs []error) {
	complain := func(bad bool, field, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%s.%s: %s", key, field, fmt.Sprintf(format, args...)))
		}
	}
	complain(!plainURL(c.Issuer), "issuer", "must be an https URL without query and fragment (http only on this machine), is %q", c.Issuer)
	complain(c.Audience == "", "audience", "must not be empty: tokens for other services would be accepted")
	complain(len(c.Algorithms) == 0, "algorithms", "at least one is required")
	for _, a := range c.Algorithms {
		complain(!slices.Contains(algorithms, a), "algorithms", "must be of %s, one is %q", strings.Join(algorithms, ", "), a)
	}
	complain(c.Leeway < 0 || c.Leeway > maxLeeway, "leeway", "must be 0s to %s, is %s", maxLeeway, c.Leeway)
	complain(c.Timeout <= 0 || c.Timeout > maxTimeout, "timeout", "must be more than 0s and at most %s, is %s", maxTimeout, c.Timeout)
	complain(c.NameClaim == "", "name_claim", "must not be empty")
	complain(c.RolesClaim == "", "roles_claim", "must not be empty")
	complain(len(c.Grants) == 0, "grants", "at least one is required: otherwise no principal has a role")
	for i, g := range c.Grants {
		at := fmt.Sprintf("%s.grants[%d]", key, i)
		complain(g.Value == "", fmt.Sprintf("grants[%d].value", i), "must not be empty")
		if _, err := (GrantConfig{g.Role, g.Topics}).grant(at); err != nil {
			errs = append(errs, err)
		}
	}
	if c.ClientID != "" {
		u, err := url.Parse(c.RedirectURL)
		complain(err != nil || !plainURL(c.RedirectURL) || u.Path != CallbackPath, "redirect_url",
			"must be the https URL of the console's %s (http only on this machine), is %q", CallbackPath, c.RedirectURL)
		complain(!slices.Contains(c.Scopes, oidc.ScopeOpenID), "scopes", "openid must be among them: without it there is no ID token")
		for _, s := range c.Scopes {
			bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
			complain(s == "" || strings.ContainsFunc(s, bad), "scopes", "%q is not a scope", s)
		}
	}
	return errs
}

// plainURL reports whether a URL has only scheme, host and path, and answers from it can be trusted.
func plainURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && u.User == nil && believable(text)
}

// believable reports whether answers from a URL can be trusted: with https always, with http only from this machine,
// because other unencrypted answers can be forged.
func believable(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && thisMachine(u.Hostname()))
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkName refuses reserved and empty names, names of more than maxName characters, and names with characters that are
// not printable.
func checkName(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxName || !utf8.ValidString(name):
		return fmt.Errorf("must have 1 to %d characters", maxName)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("must have printable characters only")
	case slices.Contains(reserved, name):
		return fmt.Errorf("%q is reserved", name)
	}
	return nil
}
