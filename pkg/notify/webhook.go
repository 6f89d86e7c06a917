package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// webhook sends CloudEvents, signed as specified by Standard Webhooks.
type webhook struct {
	target     target
	words      words
	secretFile string // "" for no signature
	now        func() time.Time
}

const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

func (w *webhook) send(ctx context.Context, n repository.Notification) error {
	body, err := w.words.cloudEvent(n)
	if err != nil {
		return err
	}
	header := http.Header{}
	header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	id, at := n.ID.String(), strconv.FormatInt(w.now().Unix(), 10)
	header.Set(headerID, id)
	header.Set(headerTimestamp, at)
	if w.secretFile != "" {
		secrets, err := readSecrets(w.secretFile)
		if err != nil {
			return err
		}
		header.Set(headerSignature, sign(secrets, id, at, body))
	}
	return w.target.post(ctx, body, header)
}

// secretPrefix marks a secret that is encoded in base64.
const secretPrefix = "whsec_"

// readSecrets returns the secrets in a file, one per line. A notification is signed with each of them: while the secret
// is being replaced, a receiver may know only the old or only the new one.
func readSecrets(file string) ([][]byte, error) {
	text, err := secret.FromFile(file)
	if err != nil {
		return nil, err
	}
	var secrets [][]byte
	for line := range strings.Lines(text.Reveal()) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key := []byte(line)
		if encoded, isEncoded := strings.CutPrefix(line, secretPrefix); isEncoded {
			if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				return nil, errors.New("a secret that begins with whsec_ must continue in base64: " + file)
			}
		}
		secrets = append(secrets, key)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: %s", secret.ErrEmpty, file)
	}
	return secrets, nil
}

func sign(secrets [][]byte, id, timestamp string, body []byte) string {
	var all []string
	for _, key := range secrets {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
