package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// FromAWS returns a Source of tokens for Amazon MSK in a region. A token is a signed URL; it is signed with the
// credentials that the AWS SDK finds: of the environment, of a role of the pod, or of the machine.
func FromAWS(region string, report func(error)) *Source {
	return newSource("aws", func(ctx context.Context) (issued, error) {
		value, expires, err := signer.GenerateAuthToken(ctx, region)
		if err != nil {
			return issued{}, withoutAWSText(err)
		}
		return issued{value: secret.Text(value), expires: time.UnixMilli(expires)}, nil
	}, report)
}

// withoutAWSText returns an error that names the failed call, its status and its code, but not the answer's text.
func withoutAWSText(err error) error {
	var call *smithy.OperationError
	if !errors.As(err, &call) {
		return errors.New("found no credentials: none in the environment, no role of the pod or of the machine")
	}
	text := call.Service() + " " + call.Operation()
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) {
		text += fmt.Sprintf(": status %d", answer.HTTPStatusCode())
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("%s: %s", text, api.ErrorCode())
	}
	if answer == nil {
		text += ": no answer"
	}
	return errors.New(text)
}
