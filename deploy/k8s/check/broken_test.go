package check

import (
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Each row breaks one manifest the way somebody might, and says what must be
// heard about it.
func TestBrokenManifestsAreFound(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		name, file, old, new, want string
	}{
		{"a misspelt field", "api.yaml", "readinessProbe:", "readynessProbe:", `unknown field "spec.template.spec.containers[0].readynessProbe"`},
		{"service links", "ingester.yaml", "enableServiceLinks: false", "enableServiceLinks: true", "Deployment dlq-manager-ingester: enableServiceLinks is not false"},
		{"a root user", "archiver.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "CronJob dlq-manager-archiver: runAsNonRoot"},
		{"a writable root", "migrate.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "Job dlq-manager-migrate-0-1-0: container migrate can write"},
		{"kept capabilities", "api.yaml", "drop: [ALL]", "drop: [NET_RAW]", "unrestricted capabilities"},
		{"no seccomp", "api.yaml", "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		{"a grace too short", "api.yaml", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 35", "the grace period is not above 35 seconds"},
		{"an unbounded directory", "api.yaml", "sizeLimit: 64Mi", "medium: Memory", "volume tmp has no size limit"},
		{"a moving tag", "api.yaml", "dlq-manager:0.1.0", "dlq-manager:latest", "is not pinned"},
		{"a Job that never ends", "migrate.yaml", `agent-pre-populate-only: "true"`, `agent-pre-populate-only: "false"`, `annotation agent-pre-populate-only is "false"`},
		{"another Vault role", "api.yaml", "role: system", "role: admin", `annotation role is "admin"`},
		{"a secret nobody renders", "api.yaml", "value: /vault/secrets/db-password", "value: /vault/secrets/password", "which nothing renders"},
		{"a template for another secret", "api.yaml", `{{- with secret "secret/data/k1s0/system/kafka/sasl" -}}`, `{{- with secret "secret/data/other" -}}`, "does not read secret/data/k1s0/system/kafka/sasl"},
		{"a mounted API token", "api.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "a token for the Kubernetes API is mounted"},
		{"a production that is open", "config.yaml", "mode: oidc", "mode: none", "auth.mode is none in production"},
		{"a production that does not say", "config.yaml", "auth:\n  mode: oidc", "authentication:\n  mode: oidc", "auth.mode is none in production"},
		{"a production opened by a variable", "api.yaml", "          env:\n", "          env:\n            - name: DLQ_AUTH_MODE\n              value: none\n", "Deployment dlq-manager-api: DLQ_AUTH_MODE is none in production"},
		{"an account that is missing", "ingester.yaml", "serviceAccountName: dlq-manager-ingester", "serviceAccountName: dlq-ingester", `no service account "dlq-ingester"`},
		{"liveness that asks the database", "ingester.yaml", "livenessProbe:\n            httpGet: {path: /healthz", "livenessProbe:\n            httpGet: {path: /readyz", "the liveness probe does not ask /healthz"},
		{"no startup probe", "api.yaml", "startupProbe:\n            httpGet: {path: /healthz, port: http}\n            periodSeconds: 2\n            failureThreshold: 30\n          livenessProbe", "livenessProbe", "the startup probe does not ask /healthz"},
		{"pods on one node", "api.yaml", "topologyKey: kubernetes.io/hostname", "topologyKey: kubernetes.io/os", "not spread by kubernetes.io/hostname"},
		{"pods that wait for a zone", "ingester.yaml", "whenUnsatisfiable: ScheduleAnyway", "whenUnsatisfiable: DoNotSchedule", "not spread by topology.kubernetes.io/zone"},
		{"a node that cannot be drained", "api.yaml", "kind: PodDisruptionBudget\nmetadata:\n  name: dlq-manager-api\n  labels:\n    app.kubernetes.io/component: api\nspec:\n  maxUnavailable: 1", "kind: PodDisruptionBudget\nmetadata:\n  name: dlq-manager-api\n  labels:\n    app.kubernetes.io/component: api\nspec:\n  maxUnavailable: 0", "keeps nodes from being drained"},
		{"a broken pod that holds up a drain", "ingester.yaml", "unhealthyPodEvictionPolicy: AlwaysAllow", "unhealthyPodEvictionPolicy: IfHealthyBudget", "a pod that is never ready holds up the drain"},
		{"scaling by sidecars", "api.yaml", "    - type: ContainerResource\n      containerResource:\n        name: cpu\n        container: api\n", "    - type: Resource\n      resource:\n        name: cpu\n", "a Resource metric counts sidecars in"},
		{"runs that overlap", "archiver.yaml", "concurrencyPolicy: Forbid", "concurrencyPolicy: Allow", "two runs may overlap"},
		{"no starting deadline", "archiver.yaml", "startingDeadlineSeconds: 3600", "suspend: false", "missed starts stop it for good"},
		{"a schedule of nowhere", "archiver.yaml", "timeZone: Etc/UTC", "suspend: false", "its schedule has no time zone"},
		{"a run without an end", "archiver.yaml", "activeDeadlineSeconds: 14400", "parallelism: 1", "CronJob dlq-manager-archiver: it has no deadline"},
		{"the Job of the last release", "migrate.yaml", "dlq-manager:0.1.0", "dlq-manager:0.2.0", "Job dlq-manager-migrate-0-1-0: the name does not tell its release, want dlq-manager-migrate-0-2-0"},
		{"a tag of one number", "archiver.yaml", "dlq-manager:0.1.0", "dlq-manager:1", "is not pinned"},
		{"a tag that moves in production", "ingester.yaml", "dlq-manager:0.1.0\n          imagePullPolicy: IfNotPresent", "dlq-manager:main\n          imagePullPolicy: Always", "moves in production"},
		{"an agent of any version", "api.yaml", "agent-image: hashicorp/vault:1.17.6", "agent-image: hashicorp/vault", "of the Vault agent is not pinned"},
		{"an archiver that reaches Kafka", "network-policies.yaml", "values: [api, ingester]\n  policyTypes: [Egress]", "values: [api, ingester, archiver]\n  policyTypes: [Egress]", "CronJob dlq-manager-archiver: it has no business with namespace messaging pods app.kubernetes.io/name=kafka:9092"},
		{"an ingester without Kafka", "network-policies.yaml", "values: [api, ingester]\n  policyTypes: [Egress]", "values: [api]\n  policyTypes: [Egress]", "Deployment dlq-manager-ingester: it cannot reach namespace messaging pods app.kubernetes.io/name=kafka:9092"},
		{"nobody finds a name", "network-policies.yaml", "port: 53\n        - protocol: TCP\n          port: 53", "port: 54", "it cannot reach namespace kube-system pods k8s-app=kube-dns:53/UDP"},
		{"a database behind the wall", "network-policies.yaml", "port: 5432", "port: 5433", "it cannot reach namespace k1s0-system pods app.kubernetes.io/name=postgres:5432"},
		{"Vault behind the wall", "network-policies.yaml", "port: 8200", "port: 8201", "it cannot reach namespace vault pods app.kubernetes.io/name=vault:8200"},
		{"Kafka wherever it is", "network-policies.yaml", "        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: messaging\n          podSelector:\n            matchLabels:\n              app.kubernetes.io/name: kafka", "        - ipBlock: {cidr: 0.0.0.0/0}", "it has no business with 0.0.0.0/0:9092"},
		{"Kafka in a misspelt namespace", "network-policies.yaml", "metadata.name: messaging", "metadata.name: mesaging", "Deployment dlq-manager-ingester: it cannot reach namespace messaging pods app.kubernetes.io/name=kafka:9092"},
		{"a database in every namespace", "network-policies.yaml", "        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: k1s0-system", "        - namespaceSelector: {}", "it has no business with every namespace pods app.kubernetes.io/name=postgres:5432"},
		{"a database of some pods", "network-policies.yaml", "app.kubernetes.io/name: postgres", "app.kubernetes.io/name: mysql", "it cannot reach namespace k1s0-system pods app.kubernetes.io/name=postgres:5432"},
		{"every pod beside the database", "network-policies.yaml", "          podSelector:\n            matchLabels:\n              app.kubernetes.io/name: postgres\n", "", "it has no business with namespace k1s0-system:5432"},
		{"Vault in a misspelt namespace", "network-policies.yaml", "metadata.name: vault", "metadata.name: vaults", "it cannot reach namespace vault pods app.kubernetes.io/name=vault:8200"},
		{"names from anybody", "network-policies.yaml", "        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: kube-system", "        - namespaceSelector: {}", "it has no business with every namespace pods k8s-app=kube-dns:53"},
		{"an issuer anywhere", "network-policies.yaml", "cidr: 10.0.0.10/32", "cidr: 0.0.0.0/0", "it has no business with 0.0.0.0/0:443"},
		{"Prometheus shut out", "network-policies.yaml", "metadata.name: monitoring", "metadata.name: observability", "Deployment dlq-manager-ingester: it cannot be reached by namespace monitoring pods app.kubernetes.io/name=prometheus:8080"},
		{"metrics for everybody", "network-policies.yaml", "        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: monitoring", "        - namespaceSelector: {}", "nobody needs to come from every namespace pods app.kubernetes.io/name=prometheus:8080"},
		{"clients that need not say so", "network-policies.yaml", "        - namespaceSelector:\n            matchLabels:\n              dlq-manager/api-client: \"true\"", "        - namespaceSelector: {}", "it cannot be reached by namespaces dlq-manager/api-client=true:8080"},
		{"metrics of an archiver", "network-policies.yaml", "values: [api, ingester]\n  policyTypes: [Ingress]", "values: [api, ingester, archiver]\n  policyTypes: [Ingress]", "CronJob dlq-manager-archiver: nobody needs to come from namespace monitoring pods app.kubernetes.io/name=prometheus:8080"},
		{"a range of ports", "network-policies.yaml", "          port: 9092", "          port: 1\n          endPort: 65535", "it has no business with namespace messaging pods app.kubernetes.io/name=kafka:1 to 65535"},
		{"a policy that lets everybody in", "network-policies.yaml", "    - from:\n        - namespaceSelector:\n            matchLabels:\n              dlq-manager/api-client: \"true\"\n      ports:", "    - ports:", "NetworkPolicy allow-api-clients lets everybody in"},
		{"a policy that lets everything out", "network-policies.yaml", "    - to:\n        - ipBlock:\n            cidr: 10.0.0.10/32\n      ports:", "    - ports:", "NetworkPolicy allow-token-issuer lets pods out everywhere"},
		{"a policy about nobody", "network-policies.yaml", "      app.kubernetes.io/component: api\n  policyTypes: [Ingress]", "      app.kubernetes.io/component: web\n  policyTypes: [Ingress]", "NetworkPolicy allow-api-clients is about no pod"},
		{"a Service that is not answered for", "config.yaml", "  mode: oidc", "  mode: none", "Service dlq-manager: server.hosts does not list dlq-manager.dlq-manager.svc.cluster.local"},
		{"a Service without pods", "api.yaml", "  selector:\n    app.kubernetes.io/name: dlq-manager\n    app.kubernetes.io/component: api", "  selector:\n    app.kubernetes.io/component: web", "Service dlq-manager selects the pods of 0 workloads"},
	} {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			if got := hear(t, broken.file, broken.old, broken.new); !strings.Contains(got, broken.want) {
				t.Errorf("got %q, want %q", got, broken.want)
			}
		})
	}
}

// The same of components.
func TestBrokenComponentsAreFound(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		name, component, file, old, new, want string
	}{
		{"a scaler that sleeps for ever", "keda", "scaled-object.yaml", "minReplicaCount: 1", "minReplicaCount: 0", "from zero nothing would wake it"},
		{"two owners of a number", "keda", "scaled-object.yaml", "scaleTargetRef:\n    name: dlq-manager-ingester", "scaleTargetRef:\n    name: dlq-manager-api", "2 scalers fight over it"},
		{"a number that KEDA cannot read", "keda", "scaled-object.yaml", `lagThreshold: "1000"`, "lagThreshold: 1000", "cannot unmarshal number"},
		{"a misspelt monitor", "monitoring", "pod-monitor.yaml", "podMetricsEndpoints", "podMetricEndpoints", `unknown field "spec.podMetricEndpoints"`},
		{"a misspelt monitor of the Service", "monitoring", "service-monitor.yaml", "endpoints:", "endpoint:", `unknown field "spec.endpoint"`},
		{"a monitor of no Service", "monitoring", "service-monitor.yaml", "component: api", "component: web", "ServiceMonitor dlq-manager-api finds no Service"},
		{"a monitor of a port that is not there", "monitoring", "service-monitor.yaml", "port: http", "port: metrics", `asks for "/metrics" on port "metrics", which is not there`},
		{"an API that is scraped twice", "monitoring", "pod-monitor.yaml", "      app.kubernetes.io/component: ingester\n", "", "Deployment dlq-manager-api is scraped 2 times, want 1"},
		{"an archiver that is gone before it is scraped", "monitoring", "pod-monitor.yaml", "      app.kubernetes.io/component: ingester\n", "", "CronJob dlq-manager-archiver is scraped 1 times, want 0"},
		{"an ingester that nobody scrapes", "monitoring", "pod-monitor.yaml", "component: ingester", "component: archiver", "Deployment dlq-manager-ingester is scraped 0 times, want 1"},
		{"a scaler of another group", "keda", "scaled-object.yaml", "consumerGroup: dlq-manager.default", "consumerGroup: dlq-manager", `consumerGroup is "dlq-manager", and Deployment dlq-manager-ingester has "dlq-manager.default"`},
		{"a scaler of another Kafka", "keda", "scaled-object.yaml", "kafka-0.messaging.svc", "kafka-1.messaging.svc", `bootstrapServers is "kafka-1.messaging.svc.cluster.local:9092", and`},
		{"a program that does not sign in", "keda-sasl", "kustomization.yaml", "  - ../kafka-sasl\n", "", `sasl is "scram_sha512", and Deployment dlq-manager-ingester has "none"`},
		{"another mechanism than the program has", "keda-sasl", "kustomization.yaml", "scram_sha512", "scram_sha256", `sasl is "scram_sha256", and Deployment dlq-manager-ingester has "scram_sha512"`},
		{"a mechanism that there is not", "kafka-sasl", "ingester.yaml", "SCRAM-SHA-512", "scram_sha512", `Deployment dlq-manager-ingester: kafka.sasl.mechanism is "scram_sha512"`},
		{"a user that nobody renders", "kafka-sasl", "api.yaml", "/vault/secrets/kafka-username", "/run/kafka-username", `Deployment dlq-manager-api: kafka.sasl.username_file is "/run/kafka-username", which nothing puts there`},
		{"a trace for everybody", "tracing", "network-policy.yaml", "        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: monitoring\n          podSelector:\n            matchLabels:\n              app.kubernetes.io/name: opentelemetry-collector", "        - ipBlock: {cidr: 0.0.0.0/0}", `it has no business with 0.0.0.0/0:4318`},
		{"notifications into the cluster", "notifications", "network-policy.yaml", "              - 10.0.0.0/8\n", "", `it has no business with 0.0.0.0/0 without 100.64.0.0/10`},
		{"a password in the clear", "keda-sasl", "kustomization.yaml", "scram_sha512\n      - op: add\n        path: /spec/triggers/0/metadata/tls\n        value: enable", "plaintext\n      - op: add\n        path: /spec/triggers/0/metadata/tls\n        value: disable", "its password is sent in the clear"},
		{"TLS on the port without", "keda-sasl", "kustomization.yaml", ":9093", ":9092", `tls is "enable" on kafka-0.messaging.svc.cluster.local:9092`},
		{"a mechanism that KEDA does not know", "keda-sasl", "kustomization.yaml", "scram_sha512", "SCRAM-SHA-512", `sasl is "SCRAM-SHA-512"`},
		{"credentials of nobody", "keda-sasl", "kustomization.yaml", "value: {name: dlq-manager-kafka}", "value: {name: kafka}", `no TriggerAuthentication "kafka"`},
		{"a key that nobody makes", "keda-sasl", "trigger-authentication.yaml", "key: kafka-password", "key: sasl-password", `nobody makes key "sasl-password"`},
		{"a parameter that KEDA does not read", "keda-sasl", "trigger-authentication.yaml", "parameter: username", "parameter: user", `"user" is no parameter of the Kafka scaler`},
		{"a misspelt reference to a Secret", "keda-sasl", "trigger-authentication.yaml", "secretTargetRef:", "secretTargetRefs:", `unknown field "spec.secretTargetRefs"`},
		{"an alert for nobody", "monitoring", "prometheus-rule.yaml", "severity: page", "severity: critical", `severity is "critical", want page or ticket`},
		{"an alert without a way on", "monitoring", "prometheus-rule.yaml", "runbook.md#dlqapidown", "runbook.md", "alert DLQAPIDown: runbook_url is"},
		{"an alert without words", "monitoring", "prometheus-rule.yaml", "summary: No API process", "description: No API process", "alert DLQAPIDown has no summary"},
		{"a misspelt rule", "monitoring", "prometheus-rule.yaml", "for: 5m", "fro: 5m", `unknown field "spec.groups`},
		{"a dashboard of one Grafana", "monitoring", "dashboard.json", "${datasource}", "P1809F7CD0C75ACF3", "asks the data source"},
		{"a dashboard that is no JSON", "monitoring", "dashboard.json", `"panels": [`, `"panels": [,`, "dashboard dashboard.json: invalid character"},
		{"a lease for each container", "vault-dynamic-credentials", "api.yaml", `{{- with secret "database/creds/dlq-manager-rw" -}}`, `{{- with secret "database/creds/dlq-manager-ro" -}}`, "does not read database/creds/dlq-manager-rw"},
		{"a secret that anybody reads", "plain-secret", "api.yaml", "defaultMode: 0440", "defaultMode: 0444", "its passwords come from nowhere"},
		{"a secret in another place", "plain-secret", "ingester.yaml", "mountPath: /etc/dlq-manager/secrets", "mountPath: /etc/secrets", "which no Secret holds"},
		{"traces of the archiver", "tracing", "network-policy.yaml", "values: [api, ingester]", "values: [api, ingester, archiver]", "CronJob dlq-manager-archiver: it has no business with namespace monitoring pods app.kubernetes.io/name=opentelemetry-collector:4318"},
		{"an ingester on the internet", "notifications", "network-policy.yaml", "app.kubernetes.io/component: api", "app.kubernetes.io/component: ingester", "Deployment dlq-manager-ingester: it has no business with 0.0.0.0/0 without"},
	} {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			tree := loadTree(t)
			change(t, tree, "/components/"+broken.component+"/"+broken.file, broken.old, broken.new)
			dir, err := AddComponent(tree, broken.component)
			if err != nil {
				t.Fatal(err)
			}
			if got := said(tree, dir); !strings.Contains(got, broken.want) {
				t.Errorf("got %q, want %q", got, broken.want)
			}
		})
	}
}

// hear changes the base in memory and returns everything that is said about it.
func hear(t *testing.T, file, old, changed string) string {
	t.Helper()
	tree := loadTree(t)
	change(t, tree, "/base/"+file, old, changed)
	return said(tree, "base")
}

func change(t *testing.T, tree filesys.FileSystem, file, old, changed string) {
	t.Helper()
	content, err := tree.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	if err := tree.WriteFile(file, []byte(strings.ReplaceAll(string(content), old, changed))); err != nil {
		t.Fatal(err)
	}
}

func said(tree filesys.FileSystem, dir string) string {
	set, err := Render(tree, dir)
	if err != nil {
		return err.Error()
	}
	return strings.Join(Problems(set), "\n")
}
