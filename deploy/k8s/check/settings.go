package check

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// setting returns what the pod's program reads for a key such as kafka.sasl.mechanism:
// its variable, or else what the configuration of the set says. "" is neither; the
// members of a list are joined by commas.
func setting(set *Set, pod Pod, key string) string {
	name := "DLQ_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	for _, variable := range pod.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	for _, file := range All[*corev1.ConfigMap](set) {
		var value any
		if text, ok := file.Data["config.yaml"]; !ok || yaml.Unmarshal([]byte(text), &value) != nil {
			continue
		}
		for part := range strings.SplitSeq(key, ".") {
			section, _ := value.(map[string]any)
			value = section[part]
		}
		return settingText(value)
	}
	return ""
}

func settingText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case []any:
		var all []string
		for _, member := range value {
			all = append(all, fmt.Sprint(member))
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(value)
}
