package auth

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
)

type issuer struct {
	cfg        OIDCConfig
	revoked    *Revocations // revoked tokens and sessions; nil for SignIn, which does not ask for revocations
	client     *http.Client
	algorithms []jose.SignatureAlgorithm
	keys       *issuerCache[[]jose.JSONWebKey]
	now        func() time.Time
	grants     []claimGrant
}

type claimGrant struct {
	value string
	grant Grant
}

func newIssuer(cfg OIDCConfig, revoked *Revocations, log *zap.Logger, now func() time.Time) (*issuer, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	i := &issuer{cfg: cfg, revoked: revoked, client: client, now: now, keys: &issuerCache[[]jose.JSONWebKey]{
		ask:     func(ctx context.Context) ([]jose.JSONWebKey, error) { return fetchKeys(ctx, client, cfg.Issuer) },
		timeout: cfg.Timeout, stale: keysStale, log: log, now: now,
	}}
	for _, a := range cfg.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(a))
	}
	for _, g := range cfg.Grants {
		grant, err := (GrantConfig{g.Role, g.Topics}).grant("auth.oidc.grants")
		if err != nil {
			return nil, err
		}
		i.grants = append(i.grants, claimGrant{g.Value, grant})
	}
	return i, nil
}

// Authenticate verifies the signature before it evaluates any claim.
func (i *issuer) Authenticate(ctx context.Context, r *http.Request) (Principal, error) {
	raw, err := bearer(r)
	if err != nil {
		return Principal{}, err
	}
	claims, err := i.counting(ctx, raw)
	if err != nil {
		return Principal{}, err
	}
	return i.principal(claims)
}

// life implements bearers. When a session ends, the issuer's token of the session becomes invalid too, because a user
// who signed out needs it no longer.
func (i *issuer) life(ctx context.Context, raw string) (ends time.Time, withSession []Digest, err error) {
	claims, err := i.counting(ctx, raw)
	if err != nil {
		return time.Time{}, nil, err
	}
	ends, _ = numericDate(claims["exp"]) // the claim is valid, since check has verified it
	return ends.Add(i.cfg.Leeway), digestsOf(raw), nil
}

// counting returns the claims of a token if the token is valid, was not revoked, and has not ended with its session.
func (i *issuer) counting(ctx context.Context, raw string) (map[string]any, error) {
	claims, err := i.check(ctx, raw)
	if err != nil {
		return nil, err
	}
	id, _ := claims["jti"].(string)
	digests := digestsOf(raw)
	if i.revoked.lists(id) || slices.ContainsFunc(digests, i.revoked.listsDigest) {
		return nil, refuse("the token was revoked")
	}
	switch ended, err := i.revoked.ended(ctx, digests...); {
	case err != nil:
		return nil, err
	case ended:
		return nil, refuse("the token ended with its session")
	}
	return claims, nil
}

// check verifies the signature, the issuer, the audience, the names of the claims and the times of a token, and returns
// its claims. It does not ask whether the token was revoked.
func (i *issuer) check(ctx context.Context, raw string) (map[string]any, error) {
	signed, err := jose.ParseSignedCompact(raw, i.algorithms)
	if err != nil {
		return nil, refuse("the token is not signed by %v", i.algorithms)
	}
	header := signed.Signatures[0].Header
	keys, err := i.keys.get(ctx, func(keys []jose.JSONWebKey) bool {
		return header.KeyID == "" || slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool { return key.KeyID == header.KeyID })
	})
	if err != nil {
		return nil, fmt.Errorf("get the issuer's keys: %w", err)
	}
	verifier := oidc.NewVerifier(i.cfg.Issuer, candidates{signed, header, keys}, &oidc.Config{
		SupportedSigningAlgs: i.cfg.Algorithms, Now: i.now,
		SkipClientIDCheck: true, // forUs checks the audience below, because this program accepts two audiences
		SkipExpiryCheck:   true, // checkTimes checks the expiry, more strictly than the library, and with the leeway
	})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return nil, refuse("the token is invalid: %s", err)
	}
	if err := checkNames(signed.UnsafePayloadWithoutVerification()); err != nil { // Verify has verified the payload
		return nil, err
	}
	if !slices.ContainsFunc(token.Audience, i.forUs) {
		return nil, refuse("the token is for %q", token.Audience)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, refuse("the token's claims are not JSON")
	}
	return claims, i.checkTimes(claims)
}

// digestsOf returns the digests of a whole JWT and of its part without the signature. The second digest identifies the
// token however its signature is encoded.
func digestsOf(raw string) []Digest {
	return []Digest{sha256.Sum256([]byte(raw)), sha256.Sum256([]byte(raw[:strings.LastIndexByte(raw, '.')+1]))}
}

// forUs reports whether a token with this audience is meant for this program: for its API, or for its client at a
// sign-in.
func (i *issuer) forUs(audience string) bool {
	return audience != "" && (audience == i.cfg.Audience || audience == i.cfg.ClientID)
}

// checkTimes requires that a token has an expiry and has not expired, and that its nbf and iat are not in the future.
// It tolerates clocks that differ by the leeway.
func (i *issuer) checkTimes(claims map[string]any) error {
	now, leeway := i.now(), i.cfg.Leeway
	for _, c := range []struct {
		name     string
		required bool
		fits     func(at time.Time) bool
	}{
		{"exp", true, func(at time.Time) bool { return now.Before(at.Add(leeway)) }},
		{"nbf", false, func(at time.Time) bool { return !now.Add(leeway).Before(at) }},
		{"iat", false, func(at time.Time) bool { return !now.Add(leeway).Before(at) }},
	} {
		value, given := claims[c.name]
		if !given && !c.required {
			continue
		}
		at, ok := numericDate(value)
		if !ok {
			return refuse("the token's %s is not a time", c.name)
		}
		if !c.fits(at) {
			return refuse("the token is not valid at this time: its %s is %s", c.name, at.Format(time.RFC3339))
		}
	}
	return nil
}

// numericDate parses seconds since 1970, with fractions.
func numericDate(value any) (time.Time, bool) {
	seconds, ok := value.(float64)
	if !ok || math.IsNaN(seconds) || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC(), true
}

func (i *issuer) principal(claims map[string]any) (Principal, error) {
	name, _ := claims[i.cfg.NameClaim].(string)
	if name == "" {
		name, _ = claims["sub"].(string)
	}
	if err := checkName(name); err != nil {
		return Principal{}, refuse("the token's name %s", err)
	}
	p := Principal{Name: name}
	values := textsAt(claims, i.cfg.RolesClaim)
	for _, g := range i.grants {
		if slices.Contains(values, g.value) {
			p.Grants = append(p.Grants, g.grant)
		}
	}
	return p, nil
}

type candidates struct {
	signed *jose.JSONWebSignature
	header jose.Header
	keys   []jose.JSONWebKey
}

func (c candidates) VerifySignature(context.Context, string) ([]byte, error) {
	for _, key := range c.keys {
		if !suits(key, c.header) {
			continue
		}
		if payload, err := c.signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made the signature")
}

// minRSA is the shortest accepted RSA key, in bits.
const minRSA = 2048

// suits reports whether a key may verify the signature: its id, use and algorithm must fit, and an RSA key must have at
// least minRSA bits. Only a public key may, because anyone could sign with a secret that the issuer publishes.
func suits(key jose.JSONWebKey, header jose.Header) bool {
	if header.KeyID != "" && key.KeyID != header.KeyID || !key.IsPublic() || !key.Valid() {
		return false
	}
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return false
	}
	public, isRSA := crypto.PublicKey(key.Key).(*rsa.PublicKey)
	return !isRSA || public.N.BitLen() >= minRSA
}
