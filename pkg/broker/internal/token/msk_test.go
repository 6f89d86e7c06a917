package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// A token for MSK is a URL that is signed with the credentials of the platform (AWS Signature Version 4). The test
// computes the signature once more.
func TestAWS_TokenIsASignedURL(t *testing.T) {
	const id, key = "AKIDEXAMPLE", "wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEY"
	t.Setenv("AWS_ACCESS_KEY_ID", id)
	t.Setenv("AWS_SECRET_ACCESS_KEY", key)
	t.Setenv("AWS_SESSION_TOKEN", "of the session")
	s := FromAWS("eu-west-1", nil)
	defer s.Close()
	token := check.Must(s.Token(t.Context()))(t)
	u := check.Must(url.Parse(string(check.Must(base64.RawURLEncoding.DecodeString(token.Reveal()))(t))))(t)
	check.Equal(t, u.Scheme+"://"+u.Host+u.Path, "https://kafka.eu-west-1.amazonaws.com/", "address")

	q := u.Query()
	signature, signedAt := q.Get("X-Amz-Signature"), q.Get("X-Amz-Date")
	check.Require(t, len(signedAt) == len("20060102T150405Z"), "got the date %q", signedAt)
	day := signedAt[:8]
	for name, want := range map[string]string{
		"Action": "kafka-cluster:Connect", "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Expires": "900", "X-Amz-SignedHeaders": "host",
		"X-Amz-Credential": id + "/" + day + "/eu-west-1/kafka-cluster/aws4_request", "X-Amz-Security-Token": "of the session",
	} {
		check.Equal(t, q.Get(name), want, name)
	}
	q.Del("X-Amz-Signature")
	q.Del("User-Agent") // the signer adds this parameter after it has signed, so the signature does not cover it
	request := strings.Join([]string{
		"GET", "/", strings.ReplaceAll(q.Encode(), "+", "%20"), "host:" + u.Host, "", "host", hexSum(""),
	}, "\n")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", signedAt, day + "/eu-west-1/kafka-cluster/aws4_request", hexSum(request)}, "\n")
	signing := []byte("AWS4" + key)
	for _, part := range []string{day, "eu-west-1", "kafka-cluster", "aws4_request"} {
		signing = sign(signing, part)
	}
	check.Equal(t, signature, hex.EncodeToString(sign(signing, text)), "signature")
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func TestAWS_ErrorHasCallAndStatusOnly(t *testing.T) {
	t.Parallel()
	answer := &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: 403}},
		Err:      &smithy.GenericAPIError{Code: "AccessDenied", Message: theSecret},
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRoleWithWebIdentity", Err: answer}, "STS AssumeRoleWithWebIdentity: status 403: AccessDenied"},
		{&smithy.OperationError{ServiceID: "ec2imds", OperationName: "GetMetadata", Err: errors.New(theSecret)}, "ec2imds GetMetadata: no answer"},
		{fmt.Errorf("static credentials are empty %s", theSecret), "found no credentials"},
	} {
		got := withoutAWSText(c.err)
		check.True(t, strings.Contains(got.Error(), c.want), "got %q, want %q", got, c.want)
		withoutSecret(t, got)
	}
}
