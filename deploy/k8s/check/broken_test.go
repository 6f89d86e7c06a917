package check

import (
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// mistake is a change to one file of the manifests that makes them wrong. Problems must report the mistake with the
// text in want.
type mistake struct{ name, file, old, new, want string }

// in applies the mistake to a copy of the manifests, and returns the copy and the folder in it that Render must render.
func (m mistake) in(t *testing.T) (tree filesys.FileSystem, dir string) {
	t.Helper()
	tree = loadTree(t)
	content, err := tree.ReadFile("/" + m.file)
	if err != nil || !strings.Contains(string(content), m.old) {
		t.Fatalf("%s does not contain %q (%v)", m.file, m.old, err)
	}
	if err := tree.WriteFile("/"+m.file, []byte(strings.ReplaceAll(string(content), m.old, m.new))); err != nil {
		t.Fatal(err)
	}
	if folders := strings.Split(m.file, "/"); folders[0] == "components" {
		return tree, withComponent(t, tree, folders[1])
	}
	return tree, "base"
}

// Each row makes one mistake in the manifests; its last column is the problem that Problems must report.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	for _, mistake := range []mistake{
		{"a misspelt field", "base/api.yaml", "readinessProbe:", "readynessProbe:", `unknown field "spec.template.spec.containers[0].readynessProbe"`},
		{"service links", "base/ingester.yaml", "enableServiceLinks: false", "enableServiceLinks: true", "Deployment dlq-manager-ingester: service links inject"},
		{"a root user", "base/archiver.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "CronJob dlq-manager-archiver: runAsNonRoot"},
		{"a grace too short", "base/api.yaml", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 35", "the grace period is not above 35 seconds"},
		{"an unbounded directory", "base/api.yaml", "sizeLimit: 64Mi", "medium: Memory", "volume tmp has no size limit"},
		{"a moving tag", "base/api.yaml", "dlq-manager:0.1.0", "dlq-manager:latest", "is not pinned"},
		{"a Job that never ends", "base/migrate.yaml", `agent-pre-populate-only: "true"`, `agent-pre-populate-only: "false"`, "the agent keeps the Job from ending"},
		{"a secret that is not rendered", "base/api.yaml", "value: /vault/secrets/db-password", "value: /vault/secrets/password", "/vault/secrets/password, which no Secret holds and Vault does not render"},
		{"a template for another secret", "base/api.yaml", `{{- with secret "secret/data/k1s0/system/kafka/sasl" -}}`, `{{- with secret "secret/data/other" -}}`, "does not read secret/data/k1s0/system/kafka/sasl"},
		{"a mounted API token", "base/api.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "a token for the Kubernetes API is mounted"},
		{"a production that is open", "base/config.yaml", "mode: oidc", "mode: none", "auth.mode is none in production"},
		{"a production opened by a variable", "base/api.yaml", "          env:\n", "          env:\n            - name: DLQ_AUTH_MODE\n              value: none\n", "Deployment dlq-manager-api: auth.mode is none in production"},
		{"a tag that moves in production", "base/ingester.yaml", "dlq-manager:0.1.0\n          imagePullPolicy: IfNotPresent", "dlq-manager:main\n          imagePullPolicy: Always", "dlq-manager:main is not pinned"},
		{"an agent of any version", "base/api.yaml", "agent-image: hashicorp/vault:1.17.6", "agent-image: hashicorp/vault", "of the Vault agent is not pinned"},
		{"an archiver that reaches Kafka", "base/network-policies.yaml", "values: [api, ingester]\n  policyTypes: [Egress]", "values: [api, ingester, archiver]\n  policyTypes: [Egress]", "CronJob dlq-manager-archiver must not connect to " + kafka},
		{"an ingester without Kafka", "base/network-policies.yaml", "values: [api, ingester]\n  policyTypes: [Egress]", "values: [api]\n  policyTypes: [Egress]", "Deployment dlq-manager-ingester cannot connect to " + kafka},
		{"names that are not found", "base/network-policies.yaml", "port: 53\n        - protocol: TCP\n          port: 53", "port: 54", "cannot connect to " + namesByUDP},
		{"Kafka wherever it is", "base/network-policies.yaml", "        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: messaging\n          podSelector:\n            matchLabels:\n              app.kubernetes.io/name: kafka", "        - ipBlock: {cidr: 0.0.0.0/0}", "must not connect to 0.0.0.0/0:9092"},
		{"every pod of the database's namespace", "base/network-policies.yaml", "          podSelector:\n            matchLabels:\n              app.kubernetes.io/name: postgres\n", "", "must not connect to kubernetes.io/metadata.name=k1s0-system/every pod:5432"},
		{"Prometheus shut out", "base/network-policies.yaml", "metadata.name: monitoring", "metadata.name: observability", "Deployment dlq-manager-ingester cannot be reached from " + prometheus + "8080"},
		{"metrics of an archiver", "base/network-policies.yaml", "values: [api, ingester]\n  policyTypes: [Ingress]", "values: [api, ingester, archiver]\n  policyTypes: [Ingress]", "CronJob dlq-manager-archiver must not be reached from " + prometheus + "8080"},
		{"a range of ports", "base/network-policies.yaml", "          port: 9092", "          port: 1\n          endPort: 65535", "app.kubernetes.io/name=kafka:1 to 65535"},
		{"a policy that lets all in", "base/network-policies.yaml", "    - from:\n        - namespaceSelector:\n            matchLabels:\n              dlq-manager/api-client: \"true\"\n      ports:", "    - ports:", "Deployment dlq-manager-api must not be reached from everywhere"},
		{"a policy that lets everything out", "base/network-policies.yaml", "    - to:\n        - ipBlock:\n            cidr: 10.0.0.10/32\n      ports:", "    - ports:", "Deployment dlq-manager-api must not connect to everywhere"},
		{"a misspelt monitor", "components/monitoring/pod-monitor.yaml", "podMetricsEndpoints", "podMetricEndpoints", `unknown field "spec.podMetricEndpoints"`},
		{"a scaler of another group", "components/keda/scaled-object.yaml", "consumerGroup: dlq-manager.default", "consumerGroup: dlq-manager", `consumerGroup is "dlq-manager", and dlq-manager-ingester has "dlq-manager.default"`},
		{"a program that does not sign in", "components/keda-sasl/kustomization.yaml", "  - ../kafka-sasl\n", "", `sasl is "scram_sha512", and dlq-manager-ingester has ""`},
		{"credentials that do not exist", "components/keda-sasl/kustomization.yaml", "value: {name: dlq-manager-kafka}", "value: {name: kafka}", `no TriggerAuthentication "kafka"`},
		{"a variable that no container has", "components/keda-oauth/trigger-authentication.yaml", "DLQ_KAFKA_SASL_OAUTH_CLIENT_ID", "DLQ_CLIENT_ID", "TriggerAuthentication dlq-manager-kafka: dlq-manager-ingester has no variable DLQ_CLIENT_ID"},
		{"a scaler that signs in elsewhere", "components/keda-msk-iam/kustomization.yaml", "value: eu-west-1", "value: us-east-1", `awsRegion is "us-east-1", and dlq-manager-ingester has "eu-west-1"`},
		{"a scaler without AWS's tokens", "components/keda-msk-iam/kustomization.yaml", "value: aws_msk_iam", "value: bearer", `saslTokenProvider is "bearer", and dlq-manager-ingester has "aws_msk_iam"`},
		{"a client's secret that is not mounted", "components/kafka-oauth/kustomization.yaml", "items: [{key: client-secret, path: client-secret}]", "items: [{key: client-secret, path: secret}]", "DLQ_KAFKA_SASL_OAUTH_CLIENT_SECRET_FILE is /etc/dlq-manager/kafka-oauth/client-secret, which no Secret holds"},
		{"a lease for each container", "components/vault-dynamic-credentials/api.yaml", `{{- with secret "database/creds/dlq-manager-rw" -}}`, `{{- with secret "database/creds/dlq-manager-ro" -}}`, "does not read database/creds/dlq-manager-rw"},
		{"a secret that others read", "components/plain-secret/api.yaml", "defaultMode: 0440", "defaultMode: 0444", "which no Secret holds"},
		{"notifications into the cluster", "components/notifications/network-policy.yaml", "              - 10.0.0.0/8\n", "", `must not connect to 0.0.0.0/0 without 100.64.0.0/10`},
		{"an ingester on the internet", "components/notifications/network-policy.yaml", "app.kubernetes.io/component: api", "app.kubernetes.io/component: ingester", "Deployment dlq-manager-ingester must not connect to 0.0.0.0/0 without"},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			t.Parallel()
			tree, dir := mistake.in(t)
			if got := problems(tree, dir); !strings.Contains(got, mistake.want) {
				t.Errorf("got %q, want %q", got, mistake.want)
			}
		})
	}
}

func problems(tree filesys.FileSystem, dir string) string {
	set, err := Render(tree, dir)
	if err != nil {
		return err.Error()
	}
	return strings.Join(Problems(set), "\n")
}

// An image is pinned by its digest, which always names the same image, or by a version of at least two parts. A version
// always names the same image only in a registry with immutable tags.
func TestPinned(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for reference, want := range map[string]bool{
		"": false, ":5000/dlq-manager": false, ":0.1.0": true, ":v0.1": true, ":0.1.0-rc.1": true, "@" + digest: true, ":0.1.0@" + digest: true, ":main@" + digest: true,
		":0.1.0@" + digest[:40]: false, ":0.1.0@md5:0123456789abcdef": false, ":1": false, ":latest": false, ":stable-2": false,
	} {
		if got := pinned.MatchString(image + reference); got != want {
			t.Errorf("%s: pinned %t, want %t", reference, got, want)
		}
	}
}
