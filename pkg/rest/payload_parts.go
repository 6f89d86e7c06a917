package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// payloadPart is how many bytes of a value are in memory at a time: a larger value is read and sent in parts.
const payloadPart = 1 << 20

func attach(w http.ResponseWriter, id uuid.UUID) {
	w.Header().Set("Content-Disposition", `attachment; filename="`+id.String()+`.bin"`)
}

// sendParts sends a value in parts. If its message is deleted or archived meanwhile, the connection is cut, so that
// the client notices the incomplete answer. It holds no connection of the store while it writes.
func (s *Server) sendParts(w http.ResponseWriter, r *http.Request, p repository.ValuePart, size int64) error {
	p.Length = payloadPart
	for ; p.From < size; p.From += payloadPart {
		part, err := s.valuePart(r.Context(), p)
		if err != nil {
			return err
		}
		if want := min(payloadPart, size-p.From); int64(len(part)) != want {
			return fmt.Errorf("value of %s has %d bytes from %d on, want %d", p.ID, len(part), p.From, want)
		}
		if p.From == 0 {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
			w.WriteHeader(http.StatusOK)
		}
		if _, err := w.Write(part); err != nil {
			return nil //nolint:nilerr // the client has left
		}
	}
	return nil
}

// valuePart reads a part within RequestTimeout; all parts together may take longer. It does not wait for a driver
// that hangs.
func (s *Server) valuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.RequestTimeout)
	defer cancel()
	type answer struct {
		part []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		part, err := s.store.ValuePart(ctx, p)
		read <- answer{part, err}
	}()
	select {
	case a := <-read:
		return a.part, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read value of %s: %w", p.ID, ctx.Err())
	}
}
