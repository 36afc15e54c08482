package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

const (
	replaced = volumebinding.Name
	volumes  = "VolumesBoundAtOnce"
)

// newVolumes is the scheduler's own plugin, which writes its decisions and then does not wait for a controller: what it
// writes is bound at once.
func newVolumes(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	args := &schedulerapi.VolumeBindingArgs{BindTimeoutSeconds: 600}
	plugin, err := volumebinding.New(ctx, args, handle, features)
	if err != nil {
		return nil, err
	}
	binding := plugin.(*volumebinding.VolumeBinding)
	binding.Binder = writer{binding.Binder}
	return named{binding}, nil
}

// named is the plugin under the name it is registered by.
type named struct{ *volumebinding.VolumeBinding }

func (named) Name() string { return volumes }

type writer struct {
	volumebinding.SchedulerVolumeBinder
}

// BindPodVolumes returns once everything is written: the context is over, which only ends the waiting for controllers.
func (w writer) BindPodVolumes(ctx context.Context, pod *v1.Pod, decided *volumebinding.PodVolumes) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = w.SchedulerVolumeBinder.BindPodVolumes(over, pod, decided)
	return nil
}

// serveVolumes does what the API server and the controllers of volumes do with what the scheduler writes.
func (c *cluster) serveVolumes(client *fake.Clientset) {
	client.AddReactor("update", "persistentvolumes", func(action testing.Action) (bool, runtime.Object, error) {
		pv := action.(testing.UpdateAction).GetObject().(*v1.PersistentVolume)
		claim, err := c.claim(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
		if err != nil {
			return true, nil, err
		}
		return true, pv, c.tie(pv.DeepCopy(), claim)
	})
	client.AddReactor("update", "persistentvolumeclaims", func(action testing.Action) (bool, runtime.Object, error) {
		claim := action.(testing.UpdateAction).GetObject().(*v1.PersistentVolumeClaim)
		made, err := c.provision(claim)
		if err != nil {
			return true, nil, err
		}
		return true, claim, c.tie(made, claim.DeepCopy())
	})
}

func (c *cluster) claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	found, exists, err := c.of(&v1.PersistentVolumeClaim{}).GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil, fmt.Errorf("find claim %s/%s: %w", namespace, name, err)
	}
	return found.(*v1.PersistentVolumeClaim).DeepCopy(), nil
}

// provision makes a volume in the zone of the node that was selected, as the driver of EBS does.
func (c *cluster) provision(claim *v1.PersistentVolumeClaim) (*v1.PersistentVolume, error) {
	found, exists, err := c.of(&v1.Node{}).GetByKey(claim.Annotations[volume.AnnSelectedNode])
	if err != nil || !exists {
		return nil, fmt.Errorf("find the node for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	zone := found.(*v1.Node).Labels[v1.LabelTopologyZone]
	name := fmt.Sprintf("pvc-%s-%s", claim.Namespace, claim.Name)
	in := v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}}
	terms := []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{in}}}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeSpec{
			Capacity:         claim.Spec.Resources.Requests,
			AccessModes:      claim.Spec.AccessModes,
			StorageClassName: *claim.Spec.StorageClassName,
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + name},
			},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}},
		},
	}, nil
}

// tie binds a volume and a claim to each other.
func (c *cluster) tie(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	pv.Status.Phase = v1.VolumeBound
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, volume.AnnBoundByController, "yes")
	claim.Spec.VolumeName = pv.Name
	claim.Status.Phase = v1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBoundByController, "yes")
	if err := c.change(pv); err != nil {
		return err
	}
	return c.change(claim)
}
