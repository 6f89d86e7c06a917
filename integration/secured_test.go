package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// secured is a system whose programs sign in to Kafka with certificates, and may do only what ACLs permit.
type secured struct {
	*letters
	own  *stack.Stack
	shop string // a consumer group of the original topic
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	own := stacktest.SecuredKafka(t)
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	l.target = l.topic("orders.v1") // the original topic by the name of the dead-letter topic, too
	l.kafka.create(l.target, partitions)
	return &secured{letters: l, own: own, shop: l.consume("shop", l.target)}
}

// userOf returns the name of a program's user in this test: the tests share one Kafka.
func (s *secured) userOf(role string) string { return s.prefix + "-" + role }

// permission is an ACL of docs/kafka-sign-in.md. Its name has the words of the page.
type permission struct {
	name string
	acl  kafka.ACLEntry
}

// permissions returns the ACLs that the commands of docs/kafka-sign-in.md make, in their order.
func (s *secured) permissions() (all []permission) {
	s.t.Helper()
	page := string(check.Must(os.ReadFile("../docs/kafka-sign-in.md"))(s.t))
	names := map[string]string{"DEAD_LETTER_TOPIC": s.source, "ORIGINAL_TOPIC": s.target, "INGESTER_GROUP": s.prefix, "GROUP": s.shop}
	commands := regexp.MustCompile(`(?m)^kafka-acls\.sh .* --allow-principal User:(\S+) --operation (\S+) --(\S+) (\S+)$`)
	for _, c := range commands.FindAllStringSubmatch(page, -1) {
		p := permission{name: c[1] + " " + c[2] + " " + c[3] + " " + c[4], acl: kafka.ACLEntry{
			ResourceName: names[c[4]], ResourcePatternType: kafka.PatternTypeLiteral,
			Principal: "User:" + s.userOf(c[1]), Host: "*", PermissionType: kafka.ACLPermissionTypeAllow,
		}}
		check.NoError(s.t, p.acl.Operation.UnmarshalText([]byte(c[2])))
		check.NoError(s.t, p.acl.ResourceType.UnmarshalText([]byte(c[3])))
		check.Require(s.t, p.acl.ResourceName != "", "%s has no name in this test", c[4])
		all = append(all, p)
	}
	check.Require(s.t, len(all) >= 8, "the page has %d commands, want all", len(all))
	return all
}

// grant makes an ACL.
func (c *cluster) grant(acl kafka.ACLEntry) {
	c.t.Helper()
	res, err := c.admin.CreateACLs(c.t.Context(), &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{acl}})
	check.Require(c.t, err == nil && res.Errors[0] == nil, "create an ACL for %s: %v, %+v", acl.ResourceName, err, res)
}

// revoke deletes an ACL.
func (c *cluster) revoke(acl kafka.ACLEntry) {
	c.t.Helper()
	res, err := c.admin.DeleteACLs(c.t.Context(), &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
		ResourceTypeFilter: acl.ResourceType, ResourceNameFilter: acl.ResourceName, ResourcePatternTypeFilter: acl.ResourcePatternType,
		PrincipalFilter: acl.Principal, HostFilter: acl.Host, Operation: acl.Operation, PermissionType: acl.PermissionType,
	}}})
	check.Require(c.t, err == nil && res.Results[0].Error == nil && len(res.Results[0].MatchingACLs) == 1,
		"delete the ACL of %s: %v, %+v", acl.ResourceName, err, res)
}

// certificate is the certificate of a client, in files that its program reads.
type certificate struct {
	t            *testing.T
	ca, crt, key string
}

// certify issues a certificate for the user of a program.
func (s *secured) certify(role string) *certificate {
	s.t.Helper()
	dir := s.t.TempDir()
	c := &certificate{t: s.t, ca: filepath.Join(dir, "ca.crt"), crt: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	check.NoError(s.t, os.WriteFile(c.ca, s.own.KafkaAuthority().Certificate, 0o600))
	c.issue(s.own.KafkaAuthority(), s.userOf(role), time.Now().Add(time.Hour))
	return c
}

// issue replaces the files, as a tool that renews certificates does.
func (c *certificate) issue(by *stack.Authority, user string, until time.Time) {
	c.t.Helper()
	crt, key, err := by.Issue(user, until)
	check.NoError(c.t, err)
	for path, content := range map[string][]byte{c.crt: crt, c.key: key} {
		check.NoError(c.t, os.WriteFile(path+".new", content, 0o600))
		check.NoError(c.t, os.Rename(path+".new", path))
	}
}

// environ makes a program sign in with the certificate.
func (s *secured) environ(c *certificate, more ...string) []string {
	return append([]string{
		"DLQ_KAFKA_BROKERS=" + s.own.KafkaSecured(), "DLQ_KAFKA_SECURITY_PROTOCOL=SSL",
		"DLQ_KAFKA_TLS_CA_FILE=" + c.ca, "DLQ_KAFKA_TLS_CERT_FILE=" + c.crt, "DLQ_KAFKA_TLS_KEY_FILE=" + c.key,
	}, more...)
}
