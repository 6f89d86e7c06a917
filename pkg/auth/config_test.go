package auth

import (
	"strings"
	"testing"
	"time"
)

var validOIDC = OIDCConfig{
	Issuer: "https://id.example.com/realms/ops", Audience: "dlq", Algorithms: []string{"RS256"},
	Timeout: time.Second, NameClaim: "n", RolesClaim: "r",
	Grants: []ClaimGrantConfig{{"ops", Operator, []string{"*"}}},
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	grants := []GrantConfig{{Viewer, []string{"orders.*"}}}
	tokens := func(list ...TokenConfig) Config { return Config{Mode: ModeToken, Tokens: list} }
	oidc := func(change func(*OIDCConfig)) Config {
		c := Config{Mode: ModeOIDC, OIDC: validOIDC}
		change(&c.OIDC)
		return c
	}
	signIn := func(redirect string, scopes ...string) func(*OIDCConfig) {
		return func(c *OIDCConfig) { c.ClientID, c.RedirectURL, c.Scopes = "console", redirect, scopes }
	}
	for _, c := range []struct {
		name  string
		cfg   Config
		wrong []string // texts that the error must contain; none when the setting is valid
	}{
		{"Default", DefaultConfig(), nil},
		{"UnknownMode", Config{Mode: "basic"}, []string{`auth.mode: must be none, token or oidc, is "basic"`}},
		{"TokensMissing", Config{Mode: ModeToken}, []string{"auth.tokens: mode token needs"}},
		{"TokensFileIsEnough", Config{Mode: ModeToken, TokensFile: "f"}, nil},
		{"Token", tokens(TokenConfig{"ci", hash, "2027-01-01T00:00:00Z", grants}), nil},
		{"SameNameTwice", tokens(TokenConfig{"ci", hash, "2027-01-01T00:00:00Z", grants}, TokenConfig{"ci", strings.Repeat("cd", 32), "2027-01-01T00:00:00Z", grants}), nil},
		{
			"EveryKeyOfAToken", tokens(TokenConfig{}, TokenConfig{"auto", "xyz", "tomorrow", []GrantConfig{{"root", []string{"a b"}}}}),
			[]string{
				"auth.tokens[0].name:", "auth.tokens[0].sha256:", "auth.tokens[0].expires_at:", "auth.tokens[0].grants:",
				`auth.tokens[1].name: "auto" is reserved`, "auth.tokens[1].sha256:", "auth.tokens[1].expires_at:",
				"auth.tokens[1].grants[0].role:", "auth.tokens[1].grants[0].topics:",
			},
		},
		{
			"SameTokenTwice", tokens(TokenConfig{"a", hash, "2027-01-01T00:00:00Z", grants}, TokenConfig{"b", strings.ToUpper(hash), "2027-01-01T00:00:00Z", grants}),
			[]string{"auth.tokens[1].sha256: is already that of tokens[0]"},
		},
		{"TokensAreCheckedInEveryMode", Config{Mode: ModeNone, Tokens: []TokenConfig{{}}}, []string{"auth.tokens[0].name:", "auth.tokens[0].sha256:", "auth.tokens[0].expires_at:", "auth.tokens[0].grants:"}},
		{"GrantWithoutTopics", tokens(TokenConfig{"a", hash, "2027-01-01T00:00:00Z", []GrantConfig{{Viewer, nil}}}), []string{"auth.tokens[0].grants[0].topics:"}},
		{"OIDC", oidc(func(*OIDCConfig) {}), nil},
		{"IssuerOnThisMachine", oidc(func(c *OIDCConfig) { c.Issuer = "http://127.0.0.1:5556" }), nil},
		{"IssuerWithoutTLS", oidc(func(c *OIDCConfig) { c.Issuer = "http://id.example.com" }), []string{"auth.oidc.issuer:"}},
		{"IssuerWithPassword", oidc(func(c *OIDCConfig) { c.Issuer = "https://a:b@id.example.com" }), []string{"auth.oidc.issuer:"}},
		{"NoneIsNoAlgorithm", oidc(func(c *OIDCConfig) { c.Algorithms = []string{"RS256", "none"} }), []string{"auth.oidc.algorithms:"}},
		{"SharedSecretsAreNoAlgorithm", oidc(func(c *OIDCConfig) { c.Algorithms = []string{"HS256"} }), []string{"auth.oidc.algorithms:"}},
		{
			"EveryKeyOfOIDC",
			Config{Mode: ModeOIDC, OIDC: OIDCConfig{Leeway: time.Hour, Grants: []ClaimGrantConfig{{}}}},
			[]string{
				"auth.oidc.issuer:", "auth.oidc.audience:", "auth.oidc.algorithms:", "auth.oidc.leeway:", "auth.oidc.timeout:",
				"auth.oidc.name_claim:", "auth.oidc.roles_claim:", "auth.oidc.grants[0].value:", "auth.oidc.grants[0].role:", "auth.oidc.grants[0].topics:",
			},
		},
		{"SignIn", oidc(signIn("https://dlq.example.com/sign-in/callback", "openid", "groups")), nil},
		{"SignInOnThisMachine", oidc(signIn("http://localhost:8080/sign-in/callback", "openid")), nil},
		{"WithoutAClientNobodyLooksAtTheRest", oidc(func(c *OIDCConfig) { c.RedirectURL, c.Scopes = "x", nil }), nil},
		{"RedirectWithoutTLS", oidc(signIn("http://dlq.example.com/sign-in/callback", "openid")), []string{"auth.oidc.redirect_url:"}},
		{"RedirectElsewhere", oidc(signIn("https://dlq.example.com/", "openid")), []string{"auth.oidc.redirect_url:"}},
		{"RedirectWithQuery", oidc(signIn("https://dlq.example.com/sign-in/callback?a=b", "openid")), []string{"auth.oidc.redirect_url:"}},
		{"Scopes", oidc(signIn("https://dlq.example.com/sign-in/callback", "profile", "a b", "")), []string{"auth.oidc.scopes: openid must", `auth.oidc.scopes: "a b" is not a scope`, `auth.oidc.scopes: "" is not a scope`}},
		{"OIDCWithoutGrants", oidc(func(c *OIDCConfig) { c.Grants = nil }), []string{"auth.oidc.grants:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.cfg.Validate()
			if len(c.wrong) == 0 && err != nil {
				t.Errorf("got %v, want it right", err)
			}
			for _, part := range c.wrong {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %s", err, part)
				}
			}
			if err != nil && len(strings.Split(err.Error(), "\n")) != len(c.wrong) {
				t.Errorf("got %v, want %d problems", err, len(c.wrong))
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, right := range map[string]bool{
		"ci": true, "Ana María": true, "a@example.com": true, "": false, "  ": false, "a\nb": false, "a\u202eb": false,
		Anonymous: false, "settler": false, "auto": false, "ingest": false, "\xff": false, strings.Repeat("x", 201): false,
	} {
		if err := checkName(name); (err == nil) != right {
			t.Errorf("%q: got %v, want right: %t", name, err, right)
		}
	}
}
