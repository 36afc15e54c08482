package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// cluster is a set of objects and the scheduler that looks at them.
type cluster struct {
	*factory
	scheduler *scheduler.Scheduler
	profile   framework.Framework
	admission []admission.MutationInterface
	// changed are the objects that are not as they were given.
	changed []any
	// tells is true if tries are to be kept.
	tells bool
	tries []try
}

func newCluster(ctx context.Context) (*cluster, error) {
	cluster := &cluster{factory: newFactory(), changed: []any{}}
	client := &fake.Clientset{}
	cluster.serveVolumes(client)
	var err error
	if cluster.admission, err = cluster.mutating(client); err != nil {
		return nil, err
	}
	profile, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	silent := func(string) events.EventRecorder { return &events.FakeRecorder{} }
	cluster.scheduler, err = scheduler.New(ctx, client, cluster.factory, nil, silent,
		scheduler.WithProfiles(*profile),
		scheduler.WithParallelism(1),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{volumes: newVolumes}),
	)
	if err != nil {
		return nil, err
	}
	cluster.profile = cluster.scheduler.Profiles[v1.DefaultSchedulerName]
	return cluster, nil
}

// defaultProfile is the profile of a scheduler without configuration, with volumes that are bound at once.
func defaultProfile() (*schedulerapi.KubeSchedulerProfile, error) {
	var written schedulerv1.KubeSchedulerConfiguration
	schedulerscheme.Scheme.Default(&written)
	var read schedulerapi.KubeSchedulerConfiguration
	if err := schedulerscheme.Scheme.Convert(&written, &read, nil); err != nil {
		return nil, err
	}
	profile := &read.Profiles[0]
	for index, plugin := range profile.Plugins.MultiPoint.Enabled {
		if plugin.Name == replaced {
			profile.Plugins.MultiPoint.Enabled[index].Name = volumes
		}
	}
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(one schedulerapi.PluginConfig) bool {
		return one.Name == replaced
	})
	return profile, nil
}

// load puts objects in as the API server would have stored them; kinds the scheduler does not look at are left out.
func (c *cluster) load(objects []json.RawMessage) error {
	decoder := legacyscheme.Codecs.UniversalDeserializer()
	for _, raw := range objects {
		object, _, err := decoder.Decode(raw, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", raw, err)
		}
		legacyscheme.Scheme.Default(object)
		// The scheduler knows pods by their uid alone.
		if pod, ok := object.(*v1.Pod); ok && pod.UID == "" {
			pod.UID = types.UID(pod.Namespace + "-" + pod.Name)
		}
		if err := c.put(object); err != nil {
			return err
		}
	}
	return nil
}

// change puts an object in that was not given so.
func (c *cluster) change(object runtime.Object) error {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	c.changed = append(c.changed, object)
	return c.put(object)
}

// bindAll binds pods until no node takes any that are left, and says why.
//
// The scheduler takes the name of a node away from a pod that it refuses, and the controller writes it again. So a round
// begins with every name. When it binds no pod, another one without names has the last word.
func (c *cluster) bindAll(ctx context.Context) (map[string]string, error) {
	names := map[string]string{}
	for _, pod := range c.waiting() {
		names[pod.Namespace+"/"+pod.Name] = pod.Status.NominatedNodeName
	}
	named := true
	for {
		refused, progress, err := c.round(ctx)
		if err != nil || !progress && !named {
			return refused, err
		}
		named = progress
		for _, pod := range c.waiting() {
			if name := names[pod.Namespace+"/"+pod.Name]; named {
				if err := c.name(pod, name); err != nil {
					return nil, err
				}
			}
		}
	}
}

// round tries every pod once; it returns why pods are refused, and whether any is bound.
func (c *cluster) round(ctx context.Context) (map[string]string, bool, error) {
	refused := map[string]string{}
	progress := false
	for _, pod := range c.waiting() {
		why, err := c.bind(ctx, pod)
		if err != nil {
			return nil, false, err
		}
		if why == "" {
			progress = true
			continue
		}
		refused[pod.Namespace+"/"+pod.Name] = why
		if err := c.name(pod, ""); err != nil {
			return nil, false, err
		}
	}
	return refused, progress, nil
}

// name writes down where a pod is expected.
func (c *cluster) name(pod *v1.Pod, node string) error {
	if pod.Status.NominatedNodeName == node {
		return nil
	}
	named := pod.DeepCopy()
	named.Status.NominatedNodeName = node
	return c.put(named)
}

// waiting are the pods without a node in the order of the scheduler's queue: the most important first, then as they came.
func (c *cluster) waiting() []*v1.Pod {
	var pods []*v1.Pod
	for _, object := range c.of(&v1.Pod{}).List() {
		if pod := object.(*v1.Pod); pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return pods
}

// bind does one scheduling and one binding cycle; it returns why no node takes the pod.
func (c *cluster) bind(ctx context.Context, pod *v1.Pod) (string, error) {
	state := framework.NewCycleState()
	result, err := c.scheduler.SchedulePod(ctx, c.profile, state, pod)
	if c.tells {
		if err := c.keep(ctx, state, pod, err == nil); err != nil {
			return "", err
		}
	}
	if err == scheduler.ErrNoNodesAvailable {
		return err.Error(), nil
	}
	if fit, ok := err.(*framework.FitError); ok {
		return fit.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("schedule pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = result.SuggestedHost
	steps := []func(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status{
		c.profile.RunReservePluginsReserve, c.profile.RunPreBindPlugins,
	}
	for _, step := range steps {
		if status := step(ctx, state, bound, result.SuggestedHost); !status.IsSuccess() {
			c.profile.RunReservePluginsUnreserve(ctx, state, bound, result.SuggestedHost)
			return status.Message(), nil
		}
	}
	return "", c.change(bound)
}

// keep notes the scores of all nodes that fit the pod, which the scheduler has just tried.
func (c *cluster) keep(ctx context.Context, state fwk.CycleState, pod *v1.Pod, fits bool) error {
	tried := try{Pod: pod.DeepCopy(), Scores: map[string]int64{}, After: len(c.changed)}
	if fits {
		all, err := c.profile.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return err
		}
		fitting := slices.DeleteFunc(slices.Clone(all), func(node fwk.NodeInfo) bool {
			return !c.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
		})
		if status := c.profile.RunPreScorePlugins(ctx, state, pod, fitting); !status.IsSuccess() {
			return status.AsError()
		}
		scores, status := c.profile.RunScorePlugins(ctx, state, pod, fitting)
		if !status.IsSuccess() {
			return status.AsError()
		}
		for _, node := range scores {
			tried.Scores[node.Name] = node.TotalScore
		}
	}
	c.tries = append(c.tries, tried)
	return nil
}
