package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// tokenOrder implements the command "token new".
type tokenOrder struct {
	name   string
	roles  []string
	topics []string
	days   int
}

// maxDays is the longest time in days for which a token can be valid. Without a limit, a token could stay valid long
// after its owner has left.
const maxDays = 3650

func (o *tokenOrder) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.name, "name", "", "with token new: `who` it is for, as the audit trail will show it")
	flags.StringSliceVar(&o.roles, "role", []string{string(auth.Viewer)}, "with token new: viewer, operator, admin, edit or unmask; may be given several times")
	flags.StringSliceVar(&o.topics, "topics", nil, `with token new: topics of the roles, such as "orders.*"; "*" is everything; may be given several times`)
	flags.IntVar(&o.days, "days", 90, "with token new: days until it expires")
}

// run creates a token. It prints the token, which is stored nowhere else, and the entry for the configuration, which
// contains only a hash of the token.
func (o *tokenOrder) run(args []string, now time.Time, stdout io.Writer) error {
	if len(args) != 2 || args[1] != "new" {
		return fmt.Errorf("unknown command %q; there is: token new", args)
	}
	if o.days < 1 || o.days > maxDays {
		return fmt.Errorf("token new: --days must be 1 to %d, is %d", maxDays, o.days)
	}
	if len(o.topics) == 0 {
		return errors.New(`token new: --topics is needed, such as --topics 'orders.*' or, for everything, --topics '*'`)
	}
	token, sum := auth.NewToken()
	entry := auth.TokenConfig{Name: o.name, SHA256: sum, ExpiresAt: now.AddDate(0, 0, o.days).UTC().Format(time.RFC3339)}
	for _, role := range o.roles {
		entry.Grants = append(entry.Grants, auth.GrantConfig{Role: auth.Role(role), Topics: o.topics})
	}
	list := []auth.TokenConfig{entry}
	if err := (auth.Config{Mode: auth.ModeToken, Tokens: list}).Validate(); err != nil {
		return fmt.Errorf("token new: %w", err)
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "# The token, shown this once. Send it as Authorization: Bearer TOKEN.\n%s\n\n"+
		"# Its entry for auth.tokens, or for the file of auth.tokens_file.\n%s", token.Reveal(), strings.TrimSuffix(string(text), "\n")+"\n")
	return err
}
