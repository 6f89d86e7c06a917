package view

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

// Drafts stores forms that were sent but not carried out, so that every replica can show them again. Implementations
// must be safe for concurrent use, limit the drafts of each owner, and delete drafts after DraftLife.
type Drafts interface {
	// KeepDraft stores the content of a new draft.
	KeepDraft(ctx context.Context, id, owner string, content []byte) error

	// Draft returns the content of a draft, or nil when there is none.
	Draft(ctx context.Context, id string) ([]byte, error)
}

const (
	// DraftLife is how long a draft is kept.
	DraftLife = 24 * time.Hour

	// DraftCookie contains the key that encrypts the browser's drafts. No server stores the key. So the database cannot
	// reveal a value that was typed or unmasked, and another browser that requests the draft's address cannot read the
	// draft.
	DraftCookie = "dlq-drafts"

	draftParameter = "draft"
	keySize        = 32 // key size of AES-256
)

// Draft is a form that was sent and is shown again: as a preview, or because it was refused.
type Draft struct {
	Form    url.Values
	Path    string   // path to which the form was sent
	Problem *Problem // why the form was refused; nil: it was not refused

	owner string // principal; "" for a form that was sent after the session had ended
	key   string // idempotency key of the form, to be sent again; "": the form gets another key
}

type storedDraft struct {
	Form    string // encoded as in a request, because JSON would change bytes that are not UTF-8
	Path    string
	Problem *Problem
	Owner   string
	Key     string
}

type (
	draftContext struct{}
	pageContext  struct{}
)

// WithPage returns the request of a form, with the address of the page that shows the form.
func WithPage(r *http.Request, address string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), pageContext{}, address))
}

// PageOf returns the address of the page that shows the form of the request.
func PageOf(r *http.Request) string {
	address, _ := r.Context().Value(pageContext{}).(string)
	return address
}

// IsForm reports whether the request is a form of a page, whose answer a browser shows.
func IsForm(r *http.Request) bool {
	return r.Method == http.MethodPost && PageOf(r) != "" && request.Navigates(r)
}

// DraftOf returns the draft that the page shows, or nil.
func DraftOf(r *http.Request) *Draft {
	d, _ := r.Context().Value(draftContext{}).(*Draft)
	return d
}

// ShowAgain answers a form with a redirect to the page of the form. That page shows the form as it was sent, and the
// problem.
func (v *Renderer) ShowAgain(w http.ResponseWriter, r *http.Request, problem *Problem) error {
	address, err := v.KeepDraft(w, r, problem)
	if err != nil {
		return err
	}
	return Redirect(w, r, address)
}

// KeepDraft stores the form of a request, and returns the address of the form's page with the draft.
func (v *Renderer) KeepDraft(w http.ResponseWriter, r *http.Request, problem *Problem) (address string, err error) {
	d := Draft{Form: maps.Clone(r.PostForm), Path: r.URL.Path, Problem: problem}
	if problem != nil && problem.InDoubt {
		d.key = d.Form.Get("key")
	}
	d.Form.Del("key")
	if viewer := session.ViewerOf(r); viewer != nil {
		d.owner = viewer.Name
	}
	id := rand.Text()
	page, err := url.Parse(PageOf(r))
	if err != nil {
		return "", fmt.Errorf("keep a draft: %w", err)
	}
	content, err := d.seal(keyFor(w, r), binding(id, page))
	if err != nil {
		return "", fmt.Errorf("seal a draft: %w", err)
	}
	if err := v.drafts.KeepDraft(r.Context(), id, d.owner, content); err != nil {
		return "", fmt.Errorf("keep a draft: %w", err)
	}
	query := page.Query()
	query.Set(draftParameter, id)
	return link.WithQuery(page.EscapedPath(), query), nil
}

var noDraft = Problem{
	Title: "The draft is not available", Message: "A draft is kept for a day, in the browser and for the user who wrote it.",
}

// WithDraft reads the draft that the address of a page names, if it names one. It returns the request with the draft,
// and with the draft's form as its form. In place of a draft that is not available, the request gets one without a form
// that says so.
func (v *Renderer) WithDraft(r *http.Request) (*http.Request, error) {
	id := r.URL.Query().Get(draftParameter)
	if r.Method != http.MethodGet || id == "" || !request.Navigates(r) {
		return r, nil
	}
	content, err := v.drafts.Draft(r.Context(), id)
	if err != nil {
		return nil, fmt.Errorf("read a draft: %w", err)
	}
	key, _ := base64.RawURLEncoding.DecodeString(session.CookieValue(r, DraftCookie))
	d, err := unseal(content, key, binding(id, r.URL))
	if err != nil || d.owner != "" && d.owner != session.ViewerOf(r).Name {
		d = &Draft{Problem: &noDraft}
	}
	r = r.WithContext(context.WithValue(r.Context(), draftContext{}, d))
	if r.PostForm = d.Form; r.PostForm == nil {
		r.PostForm = url.Values{}
	}
	r.Form = r.URL.Query()
	for name, values := range r.PostForm {
		r.Form[name] = append(values[:len(values):len(values)], r.Form[name]...)
	}
	return r, nil
}

// Sent reports whether the page shows a form that was sent.
func (d *Draft) Sent() bool { return d != nil && d.Form != nil }

// Key returns the idempotency key for the form that is sent to an address. It returns the key of the draft if it is
// not known whether the draft's form was carried out, and otherwise a new key.
func (d *Draft) Key(address string) string {
	if d != nil && d.key != "" && d.Path == address {
		return d.key
	}
	return rand.Text()
}

// Refused returns why the form was refused, or nil.
func (d *Draft) Refused() *Problem {
	if d == nil {
		return nil
	}
	return d.Problem
}

// ForgetDrafts makes the browser's drafts unreadable by removing the key from the browser.
func ForgetDrafts(w http.ResponseWriter, r *http.Request) {
	if session.CookieValue(r, DraftCookie) != "" {
		session.Remember(w, r, DraftCookie, "")
	}
}

// binding binds a draft to its id and to its page, so that no other page accepts the draft as its own form.
func binding(id string, page *url.URL) []byte { return []byte(id + " " + page.Path) }

// keyFor returns the key that encrypts the browser's drafts, and creates it if the browser has none. It sets the cookie
// again, so that the browser keeps the key for at least DraftLife.
func keyFor(w http.ResponseWriter, r *http.Request) []byte {
	key, err := base64.RawURLEncoding.DecodeString(session.CookieValue(r, DraftCookie))
	if err != nil || len(key) != keySize {
		key = make([]byte, keySize)
		_, _ = rand.Read(key) // rand.Read never fails
	}
	http.SetCookie(w, &http.Cookie{
		Name: DraftCookie, Value: base64.RawURLEncoding.EncodeToString(key), Path: "/", MaxAge: int(DraftLife / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
		// If a proxy terminates TLS, r.TLS is nil although the browser uses TLS. A browser with a session uses TLS,
		// because the session's cookie requires it.
		Secure: r.TLS != nil || session.Of(r).Token != "",
	})
	return key
}

func (d Draft) seal(key, bound []byte) ([]byte, error) {
	raw, err := json.Marshal(storedDraft{d.Form.Encode(), d.Path, d.Problem, d.owner, d.key})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(raw) // a buffer accepts everything
	_ = z.Close()
	sealer, err := sealerOf(key)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(nil, nil, packed.Bytes(), bound), nil //nolint:gosec // G407: the nonce is random
}

var errNotSealed = errors.New("no draft of this browser and page")

func unseal(content, key, bound []byte) (*Draft, error) {
	sealer, err := sealerOf(key)
	if err != nil {
		return nil, err
	}
	packed, err := sealer.Open(nil, nil, content, bound)
	if err != nil {
		return nil, errNotSealed
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	var stored storedDraft
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(stored.Form)
	return &Draft{form, stored.Path, stored.Problem, stored.Owner, stored.Key}, err
}

func sealerOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
