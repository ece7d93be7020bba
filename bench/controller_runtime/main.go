// A controller of Systems as one writes it with controller-runtime, to compare the operator with: it puts the id
// on a System that came without, checks its auth schemes, and applies a status with a Ready condition and an event,
// only when something differs.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	idLabel = "tieline.dev/id"
	owner   = "bench-controller"
)

// System has the fields that the check needs.
type System struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SystemSpec   `json:"spec,omitempty"`
	Status            SystemStatus `json:"status,omitempty"`
}

// SystemSpec is what the user asks for.
type SystemSpec struct {
	Name              string       `json:"name"`
	Domain            string       `json:"domain"`
	TemplateBaseURL   string       `json:"templateBaseUrl"`
	AuthSchemeConfigs []AuthScheme `json:"authSchemeConfigs,omitempty"`
}

// AuthScheme is one way to authenticate.
type AuthScheme struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// SystemStatus is what the controller says.
type SystemStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// SystemList is a list of them.
type SystemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []System `json:"items"`
}

// DeepCopyObject copies by way of JSON's rules, field by field.
func (s *System) DeepCopyObject() runtime.Object {
	copied := *s
	s.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.AuthSchemeConfigs = append([]AuthScheme(nil), s.Spec.AuthSchemeConfigs...)
	copied.Status.Conditions = append([]metav1.Condition(nil), s.Status.Conditions...)
	return &copied
}

// DeepCopyObject copies the list.
func (l *SystemList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]System, len(l.Items))
	for index := range l.Items {
		copied.Items[index] = *l.Items[index].DeepCopyObject().(*System)
	}
	return &copied
}

type reconciler struct {
	client.Client
	events record.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	system := &System{}
	if err := r.Get(ctx, request.NamespacedName, system); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if system.Labels[idLabel] == "" {
		sum := sha256.Sum256([]byte(system.UID))
		labelled := identified(system)
		labelled.SetLabels(map[string]string{idLabel: fmt.Sprintf("%026X", sum[:13])})
		if err := r.apply(ctx, labelled, false); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	wanted := status(system)
	if reflect.DeepEqual(wanted, system.Status) {
		return ctrl.Result{}, nil
	}
	told := identified(system)
	content, err := json.Marshal(wanted)
	if err != nil {
		return ctrl.Result{}, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(content, &fields); err != nil {
		return ctrl.Result{}, err
	}
	told.Object["status"] = fields
	if err := r.apply(ctx, told, true); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if len(system.Status.Conditions) == 0 || system.Status.Conditions[0].Reason != wanted.Conditions[0].Reason {
		r.events.Event(system, corev1.EventTypeNormal, wanted.Conditions[0].Reason, wanted.Conditions[0].Message)
	}
	return ctrl.Result{}, nil
}

func (r *reconciler) apply(ctx context.Context, object *unstructured.Unstructured, onStatus bool) error {
	configuration := client.ApplyConfigurationFromUnstructured(object)
	if onStatus {
		return r.Status().Apply(ctx, configuration, client.FieldOwner(owner), client.ForceOwnership)
	}
	return r.Apply(ctx, configuration, client.FieldOwner(owner), client.ForceOwnership)
}

func identified(system *System) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("tieline.dev/v1alpha1")
	object.SetKind("System")
	object.SetName(system.Name)
	object.SetNamespace(system.Namespace)
	object.SetUID(system.UID)
	return object
}

func status(system *System) SystemStatus {
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Valid", Message: "The system can be connected to",
		ObservedGeneration: system.Generation, LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}
	seen := map[string]bool{}
	for _, scheme := range system.Spec.AuthSchemeConfigs {
		if scheme.ID == "" || seen[scheme.ID] {
			condition.Status, condition.Reason = metav1.ConditionFalse, "AuthSchemeInvalid"
			condition.Message = fmt.Sprintf("The auth scheme %q is there twice", scheme.ID)
		}
		seen[scheme.ID] = true
	}
	for _, before := range system.Status.Conditions {
		if before.Type == condition.Type && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	return SystemStatus{ObservedGeneration: system.Generation, Conditions: []metav1.Condition{condition}}
}

func main() {
	namespace := flag.String("namespace", "", "the namespace to work in")
	workers := flag.Int("workers", 10, "reconciles at the same time")
	address := flag.String("metrics", "127.0.0.1:0", "address of the metrics")
	flag.Parse()
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	fatal(clientgoscheme.AddToScheme(scheme))
	group := schema.GroupVersion{Group: "tieline.dev", Version: "v1alpha1"}
	scheme.AddKnownTypes(group, &System{}, &SystemList{})
	metav1.AddToGroupVersion(scheme, group)
	configuration := ctrl.GetConfigOrDie()
	// client-go's own limit of 20 calls a second would be what is measured.
	configuration.QPS = -1
	configured, err := ctrl.NewManager(configuration, manager.Options{
		Scheme:  scheme,
		Metrics: metrics.Options{BindAddress: *address},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
	})
	fatal(err)
	fatal(ctrl.NewControllerManagedBy(configured).For(&System{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: *workers}).
		Complete(&reconciler{Client: configured.GetClient(), events: configured.GetEventRecorderFor(owner)}))
	fatal(configured.Start(ctrl.SetupSignalHandler()))
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
