package request

import (
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Problems collects all faults of a request, so that one answer reports them.
type Problems []error

// Add adds a problem; nil is none.
func (p *Problems) Add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// Refuse adds a problem of a field when bad is true, and returns bad.
func (p *Problems) Refuse(bad bool, field, format string, args ...any) bool {
	if bad {
		*p = append(*p, &entity.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	return bad
}

// Err returns all problems as one error, nil for none.
func (p Problems) Err() error { return errors.Join(p...) }
