// Package helm_test renders the chart as Helm does, and holds the result against the types of the Kubernetes API.
package helm_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

const chartDir = "holdpoint"

// minimal are the values that every installation with an own database gives.
const minimal = `
publicURL: https://holdpoint.example.com
database: {url: "postgres://holdpoint:secret@db.example.com/holdpoint"}
encryptionKey: {existingSecret: {name: holdpoint-key}}
`

// variants of the chart that have golden files.
var variants = map[string]string{
	"minimal": minimal,
	"bundled": `
publicURL: https://holdpoint.example.com
postgresql: {enabled: true, password: "p@ss/word"}
encryptionKey: {existingSecret: {name: holdpoint-key}}
bootstrapToken: {existingSecret: {name: holdpoint-token}}
replicas: 1
`,
	"production": `
publicURL: https://holdpoint.example.com
database: {existingSecret: {name: holdpoint-db, key: uri}, listenKey: direct, readKey: standby}
encryptionKey: {existingSecret: {name: holdpoint-key}}
oidc: {existingSecret: {name: holdpoint-oidc}}
agentOAuth: {existingSecret: {name: holdpoint-agents}}
config:
  trusted_proxies: [10.0.0.0/8]
  files_url: "s3://files?region=eu-central-1"
  keyset_kms_uri: aws-kms://arn:aws:kms:eu-central-1:1:key/1
extraEnv: [{name: OIDC_SECRET, valueFrom: {secretKeyRef: {name: holdpoint-oidc, key: secret}}}]
extraEnvFrom: [{secretRef: {name: models}}]
image: {variant: cloud, tag: 1.2.3, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [registry]}
autoscaling: {enabled: true}
metrics:
  from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
networkPolicy:
  ingressFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]
  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]
ingress: {enabled: true, tlsSecret: holdpoint-tls, annotations: {cert-manager.io/cluster-issuer: letsencrypt}}
persistence: {existingClaim: homes}
extraVolumes: [{name: database-ca, configMap: {name: database-ca}}]
extraVolumeMounts: [{name: database-ca, mountPath: /etc/holdpoint/database-ca, readOnly: true}]
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/holdpoint"}}
priorityClassName: high
nodeSelector: {kubernetes.io/arch: amd64}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {}}
podLabels: {team: platform}
podAnnotations: {example.com/note: "yes"}
service: {annotations: {example.com/lb: internal}}
`,
}

// kinds has an empty object of each kind that the chart makes.
var kinds = map[string]func() any{
	"v1/ConfigMap": func() any { return &corev1.ConfigMap{} }, "v1/Secret": func() any { return &corev1.Secret{} },
	"v1/Service": func() any { return &corev1.Service{} }, "v1/ServiceAccount": func() any { return &corev1.ServiceAccount{} },
	"apps/v1/Deployment": func() any { return &appsv1.Deployment{} }, "apps/v1/StatefulSet": func() any { return &appsv1.StatefulSet{} },
	"batch/v1/Job": func() any { return &batchv1.Job{} }, "autoscaling/v2/HorizontalPodAutoscaler": func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
	"policy/v1/PodDisruptionBudget": func() any { return &policyv1.PodDisruptionBudget{} }, "networking.k8s.io/v1/NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
	"networking.k8s.io/v1/Ingress":            func() any { return &networkingv1.Ingress{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return &monitoring.ServiceMonitor{} },
}

// render returns the chart's manifests by template.
func render(values string) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if err := sigsyaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "gate", Namespace: "agents", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// objects decodes all manifests strictly: an unknown or misplaced field is an error.
func objects(manifests map[string]string) (map[string]any, error) {
	found := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests[name])))
		for {
			text, err := documents.Read()
			if err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			key, object, err := decode(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			if found[key] != nil {
				return nil, fmt.Errorf("%s: %s is there twice", name, key)
			}
			if object != nil {
				found[key] = object
			}
		}
	}
	return found, nil
}

func decode(text []byte) (string, any, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := sigsyaml.Unmarshal(text, &head); err != nil {
		return "", nil, err
	}
	if head.Kind == "" {
		if regexp.MustCompile(`(?m)^[^#\s-]`).Match(text) {
			return "", nil, fmt.Errorf("a document has no kind")
		}
		return "", nil, nil
	}
	make, ok := kinds[head.APIVersion+"/"+head.Kind]
	if !ok {
		return "", nil, fmt.Errorf("unknown kind %s/%s", head.APIVersion, head.Kind)
	}
	object := make()
	if err := sigsyaml.UnmarshalStrict(text, object); err != nil {
		return "", nil, err
	}
	return head.Kind + "/" + head.Metadata.Name, object, nil
}

// TestVariants compares the main variants with their golden files.
func TestVariants(t *testing.T) {
	t.Parallel()
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := objects(manifests); err != nil {
				t.Error(err)
			}
			var text strings.Builder
			for _, template := range slices.Sorted(maps.Keys(manifests)) {
				if content := strings.TrimSpace(manifests[template]); content != "" {
					fmt.Fprintf(&text, "# %s\n%s\n---\n", template, content)
				}
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil { //nolint:gosec // G306: it is committed
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := text.String(); got != string(want) {
				t.Errorf("the chart renders something else than %s; after a look at the difference: go test ./helm -update\n%s", golden, firstDifference(got, string(want)))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// TestLint runs the checks of `helm lint --strict`.
func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range variants {
		given := map[string]any{}
		if err := sigsyaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		result := lint.RunAll(chartDir, given, "agents")
		for _, message := range result.Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// TestRefusals: values that cannot work stop the installation, and the error names the value.
func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ values, want string }{
		"no values":           {"{}", "publicURL: must be the URL"},
		"no database":         {`{publicURL: "https://a.example", encryptionKey: {existingSecret: {name: k}}}`, "database: exactly one of"},
		"two databases":       {minimal + "postgresql: {enabled: true, password: p}", "database: exactly one of"},
		"no password":         {`{publicURL: "https://a.example", postgresql: {enabled: true}, encryptionKey: {existingSecret: {name: k}}}`, "postgresql: password or existingSecret.name"},
		"no key":              {`{publicURL: "https://a.example", database: {url: "postgres://a/b"}}`, "encryptionKey.existingSecret.name"},
		"pooler without name": {`{publicURL: "https://a.example", database: {url: "postgres://a/b", listenKey: x}, encryptionKey: {existingSecret: {name: k}}}`, "database.existingSecret.name must be set"},
		"TLS in the pod":      {minimal + "config: {tls_cert: /tls.crt, tls_key: /tls.key}", "config.tls_cert: the probes"},
		"setting of chart":    {minimal + "config: {addr: ':1'}", "config.addr: the chart sets it"},
		"misspelled value":    {minimal + "replica: 3", "replica"},
		"path in URL":         {`{publicURL: "https://a.example/b", database: {url: "postgres://a/b"}, encryptionKey: {existingSecret: {name: k}}}`, "publicURL"},
		"other database":      {`{publicURL: "https://a.example", database: {url: "mysql://a/b"}, encryptionKey: {existingSecret: {name: k}}}`, "url"},
		"digest in the tag":   {minimal + "image: {tag: '1.2.3@sha256:0'}", "tag"},
		"no pods":             {minimal + "autoscaling: {enabled: true, minReplicas: 0}", "minReplicas"},
		"unknown image":       {minimal + "image: {variant: large}", "variant"},
		"too little grace":    {minimal + "terminationGracePeriodSeconds: 10", "terminationGracePeriodSeconds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := render(test.values); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

// TestNewDatabaseReplacesPods: pods read variables once. So another URL in the Secret of the chart has to change the pods.
func TestNewDatabaseReplacesPods(t *testing.T) {
	t.Parallel()
	var pods []string
	for _, host := range []string{"db.example.com", "db2.example.com"} {
		manifests, err := render(strings.ReplaceAll(minimal, "db.example.com", host))
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, manifests["holdpoint/templates/deployment.yaml"])
	}
	if pods[0] == "" || pods[0] == pods[1] {
		t.Error("another database.url leaves the pods as they are")
	}
}

// TestObjectsFitTogether follows the names by which objects refer to one another.
func TestObjectsFitTogether(t *testing.T) {
	t.Parallel()
	for name, values := range variants {
		manifests, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		found, err := objects(manifests)
		if err != nil {
			t.Fatal(err)
		}
		server := found["Deployment/gate-holdpoint"].(*appsv1.Deployment)
		pod := server.Spec.Template
		for kind, selector := range map[string]map[string]string{
			"deployment": server.Spec.Selector.MatchLabels,
			"service":    found["Service/gate-holdpoint"].(*corev1.Service).Spec.Selector,
			"budget":     found["PodDisruptionBudget/gate-holdpoint"].(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels,
			"policy":     found["NetworkPolicy/gate-holdpoint"].(*networkingv1.NetworkPolicy).Spec.PodSelector.MatchLabels,
		} {
			for label, value := range selector {
				if pod.Labels[label] != value {
					t.Errorf("%s: the %s selects %s=%s, the pod has %q", name, kind, label, value, pod.Labels[label])
				}
			}
		}
		job := found["Job/gate-holdpoint-migrate"].(*batchv1.Job)
		if job.Labels["app.kubernetes.io/component"] == pod.Labels["app.kubernetes.io/component"] {
			t.Errorf("%s: the service selects the migration", name)
		}
		if database, ok := found["StatefulSet/gate-holdpoint-postgresql"].(*appsv1.StatefulSet); ok {
			checkHardened(t, name, database.Spec.Template.Spec)
		}
		for _, spec := range []corev1.PodSpec{pod.Spec, job.Spec.Template.Spec} {
			checkReferences(t, name, spec, found, values)
			checkHardened(t, name, spec)
		}
	}
}

// checkReferences checks that each Secret and ConfigMap of a pod is made by the chart or named by the values.
func checkReferences(t *testing.T, name string, pod corev1.PodSpec, found map[string]any, values string) {
	t.Helper()
	check := func(kind, object string) {
		if found[kind+"/"+object] == nil && !strings.Contains(values, "name: "+object) {
			t.Errorf("%s: a pod uses the %s %s, which does not exist", name, kind, object)
		}
	}
	mounts := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounts[mount.Name] = true
	}
	for _, variable := range pod.Containers[0].Env {
		if from := variable.ValueFrom; from != nil {
			check("Secret", from.SecretKeyRef.Name)
		}
	}
	for _, volume := range pod.Volumes {
		if !mounts[volume.Name] {
			t.Errorf("%s: the volume %s is not mounted", name, volume.Name)
		}
		delete(mounts, volume.Name)
		switch {
		case volume.Secret != nil:
			check("Secret", volume.Secret.SecretName)
		case volume.ConfigMap != nil:
			check("ConfigMap", volume.ConfigMap.Name)
		}
	}
	if len(mounts) > 0 {
		t.Errorf("%s: mounts without a volume: %v", name, mounts)
	}
}

// checkHardened checks what the restricted pod security standard asks for, and a read-only root.
func checkHardened(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	security, inside := pod.SecurityContext, pod.Containers[0].SecurityContext
	if !*security.RunAsNonRoot || *security.RunAsUser == 0 || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*inside.AllowPrivilegeEscalation || !*inside.ReadOnlyRootFilesystem || !slices.Equal(inside.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		*pod.AutomountServiceAccountToken {
		t.Errorf("%s: a pod is not restricted: %+v, %+v", name, security, inside)
	}
}
