// Package check renders the manifests of dlq-manager and checks them without a cluster. Each manifest must decode
// strictly into its Kubernetes type and pass kube-score and the restricted Pod Security level. The rules of this
// package check what is particular to dlq-manager: which pod connects to which server, which files hold passwords, and
// which images are pinned.
package check

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// LoadTree copies the manifests below root into memory, so that tests can change them and add
// overlays.
func LoadTree(root string) (filesys.FileSystem, error) {
	tree, source := filesys.MakeFsInMemory(), os.DirFS(root)
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		return tree.WriteFile(path.Join("/", name), content)
	})
	return tree, err
}

// Set holds the objects of one kustomization.
type Set struct {
	Objects []runtime.Object
	text    bytes.Buffer // all objects as YAML, the input of kube-score
}

// Pod is the pod template of one workload. Once is true for a job, whose pods end by themselves.
type Pod struct {
	Kind, Name string
	Once       bool
	Template   *corev1.PodTemplateSpec
}

// Render builds the kustomization in dir and decodes it.
func Render(tree filesys.FileSystem, dir string) (*Set, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(tree, path.Join("/", dir))
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	set := &Set{}
	for _, resource := range built.Resources() {
		manifest, err := resource.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", resource.CurId(), err)
		}
		if err := set.Add(manifest); err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", dir, resource.GetKind(), resource.GetName(), err)
		}
	}
	return set, nil
}

// Add decodes one manifest and adds it to the set. It returns an error for an unknown or repeated field and for an
// unknown kind. The kinds of KEDA are decoded without their Go types, because KEDA's Go module requires the client
// library of every queue that KEDA supports.
func (s *Set) Add(manifest []byte) error {
	object, err := decode(manifest)
	if err != nil {
		return err
	}
	s.Objects = append(s.Objects, object)
	s.text.WriteString("---\n")
	s.text.Write(bytes.TrimSpace(manifest))
	s.text.WriteByte('\n')
	return nil
}

func decode(manifest []byte) (runtime.Object, error) {
	text, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, err
	}
	untyped := &unstructured.Unstructured{}
	if err := untyped.UnmarshalJSON(text); err != nil || untyped.GroupVersionKind().Group == "keda.sh" {
		return untyped, err
	}
	known := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(known))
	utilruntime.Must(monitoringv1.AddToScheme(known))
	object, _, err := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer().Decode(manifest, nil, nil)
	return object, err
}

// Pods returns the pod templates of all Deployments, Jobs and CronJobs.
func (s *Set) Pods() (pods []Pod) {
	for _, object := range s.Objects {
		switch w := object.(type) {
		case *appsv1.Deployment:
			pods = append(pods, Pod{"Deployment", w.Name, false, &w.Spec.Template})
		case *batchv1.Job:
			pods = append(pods, Pod{"Job", w.Name, true, &w.Spec.Template})
		case *batchv1.CronJob:
			pods = append(pods, Pod{"CronJob", w.Name, true, &w.Spec.JobTemplate.Spec.Template})
		}
	}
	return pods
}

// Labels returns the pod's labels, which selectors match.
func (p Pod) Labels() labels.Set { return p.Template.Labels }

// Container returns the container of the program, which is the only one in the manifests; all other containers are
// injected in the cluster.
func (p Pod) Container() corev1.Container { return p.Template.Spec.Containers[0] }

// All returns the objects of type T in a set.
func All[T runtime.Object](s *Set) (found []T) {
	for _, object := range s.Objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// Setting returns the value that the pod's program reads for a key such as kafka.sasl.mechanism: the value of the key's
// environment variable, or else the value in the ConfigMap, or else "". It joins the elements of a list by commas.
func (s *Set) Setting(pod Pod, key string) string {
	name := "DLQ_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	for _, variable := range pod.Container().Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	for _, file := range All[*corev1.ConfigMap](s) {
		var value any
		if text, ok := file.Data["config.yaml"]; !ok || yaml.Unmarshal([]byte(text), &value) != nil {
			continue
		}
		for part := range strings.SplitSeq(key, ".") {
			section, _ := value.(map[string]any)
			value = section[part]
		}
		if value == nil {
			return ""
		}
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(value), "[]"), " ", ",")
	}
	return ""
}
