package payload

import (
	"errors"
	"fmt"
	"strings"
)

// MaskConfig lists the fields that only principals with the right to unmask may see.
type MaskConfig struct {
	Payload []string `mapstructure:"payload"` // paths of JSON values, such as $.card.number or $.items[*].sku
	Headers []string `mapstructure:"headers"` // names, in any case; * matches any characters
}

// DefaultMaskConfig masks nothing.
func DefaultMaskConfig() MaskConfig { return MaskConfig{} }

// Validate reports every problem at once.
func (c MaskConfig) Validate() error {
	var errs []error
	for i, text := range c.Payload {
		if _, err := ParsePath(text); err != nil {
			errs = append(errs, fmt.Errorf("masking.payload[%d] %q: %w", i, text, err))
		}
	}
	for i, name := range c.Headers {
		if strings.TrimSpace(name) == "" {
			errs = append(errs, fmt.Errorf("masking.headers[%d] is empty", i))
		}
	}
	return errors.Join(errs...)
}
