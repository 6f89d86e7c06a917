package check

import (
	"fmt"
	"slices"
	"strings"
)

// What KEDA calls the mechanisms of kafka.sasl.mechanism.
var kedaMechanisms = map[string]string{
	"PLAIN": "plaintext", "SCRAM-SHA-256": "scram_sha256", "SCRAM-SHA-512": "scram_sha512",
}

// strangers finds differences between a trigger and the program that it scales: a scaler
// that asks another Kafka, about another group or in another way, measures the lag of
// somebody else or none.
func strangers(set *Set, trigger Trigger, pod Pod) []string {
	protocol := setting(set, pod, "kafka.security_protocol")
	sasl, tls := "none", "disable"
	if strings.HasPrefix(protocol, "SASL_") {
		sasl = kedaMechanisms[setting(set, pod, "kafka.sasl.mechanism")]
	}
	if strings.HasSuffix(protocol, "SSL") {
		tls = "enable"
	}
	var problems []string
	for key, want := range map[string]string{
		"bootstrapServers": setting(set, pod, "kafka.brokers"),
		"consumerGroup":    setting(set, pod, "kafka.consumer_group"),
		"sasl":             sasl,
		"tls":              tls,
	} {
		got := trigger.Metadata[key]
		if unsaid := map[string]string{"sasl": "none", "tls": "disable"}; got == "" {
			got = unsaid[key]
		}
		if got != want {
			problems = append(problems, fmt.Sprintf("%s is %q, and %s %s has %q", key, got, pod.Kind, pod.Name, want))
		}
	}
	slices.Sort(problems)
	return problems
}

// unsigned finds programs that Kafka turns away: they are to sign in, by no mechanism
// or with files that nothing puts there.
func unsigned(set *Set, pod Pod) []string {
	if pod.Once || !strings.HasPrefix(setting(set, pod, "kafka.security_protocol"), "SASL_") {
		return nil
	}
	var problems []string
	if mechanism := setting(set, pod, "kafka.sasl.mechanism"); kedaMechanisms[mechanism] == "" {
		problems = append(problems, fmt.Sprintf("%s %s: kafka.sasl.mechanism is %q", pod.Kind, pod.Name, mechanism))
	}
	files := secretFiles(pod)
	for name := range VaultFiles(pod) {
		files = append(files, secretsDir+name)
	}
	for _, key := range []string{"kafka.sasl.username_file", "kafka.sasl.password_file"} {
		if file := setting(set, pod, key); !slices.Contains(files, file) {
			problems = append(problems, fmt.Sprintf("%s %s: %s is %q, which nothing puts there", pod.Kind, pod.Name, key, file))
		}
	}
	return problems
}
