package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
)

// mutating are the admission plugins of the API server that change what the scheduler sees of a pod, in its order.
func (c *cluster) mutating(client *fake.Clientset) ([]admission.MutationInterface, error) {
	limits, err := limitranger.NewLimitRanger(nil)
	if err != nil {
		return nil, err
	}
	plugins := []admission.MutationInterface{limits, priority.NewPlugin(), runtimeclass.NewRuntimeClass()}
	for _, plugin := range plugins {
		if wants, ok := plugin.(initializer.WantsExternalKubeInformerFactory); ok {
			wants.SetExternalKubeInformerFactory(c.factory)
		}
		if wants, ok := plugin.(initializer.WantsExternalKubeClientSet); ok {
			wants.SetExternalKubeClientSet(client)
		}
		if err := plugin.(admission.InitializationValidator).ValidateInitialization(); err != nil {
			return nil, err
		}
	}
	return plugins, nil
}

// admit makes of a pod what the API server stores when it is created.
func (c *cluster) admit(ctx context.Context, pod *v1.Pod) error {
	legacyscheme.Scheme.Default(pod)
	status := pod.Status
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return err
	}
	podstorage.Strategy.PrepareForCreate(ctx, internal)
	attributes := admission.NewAttributesRecord(internal, nil, core.Kind("Pod").WithVersion("v1"), pod.Namespace,
		pod.Name, core.Resource("pods").WithVersion("v1"), "", admission.Create, nil, false, nil)
	for _, plugin := range c.admission {
		if err := plugin.Admit(ctx, attributes, nil); err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if errs := podstorage.Strategy.Validate(ctx, internal); len(errs) > 0 {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, errs.ToAggregate())
	}
	pod.Spec = v1.PodSpec{}
	if err := legacyscheme.Scheme.Convert(internal, pod, nil); err != nil {
		return err
	}
	pod.Status = status
	return nil
}

// admitAll admits the pods that were given as their makers write them, and makes the claims of their ephemeral volumes.
func (c *cluster) admitAll(ctx context.Context) error {
	for _, pod := range c.waiting() {
		admitted := pod.DeepCopy()
		if err := c.admit(ctx, admitted); err != nil {
			return err
		}
		if err := c.put(runtime.Object(admitted)); err != nil {
			return err
		}
		if err := c.claimVolumes(admitted); err != nil {
			return err
		}
	}
	return c.defaultClasses()
}

// claimVolumes makes the claims of generic ephemeral volumes, as their controller does.
func (c *cluster) claimVolumes(pod *v1.Pod) error {
	for _, volume := range pod.Spec.Volumes {
		if volume.Ephemeral == nil {
			continue
		}
		name := ephemeral.VolumeClaimName(pod, &volume)
		if _, exists, err := c.of(&v1.PersistentVolumeClaim{}).GetByKey(pod.Namespace + "/" + name); err != nil || exists {
			return err
		}
		owner := *metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))
		claim := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: pod.Namespace, UID: types.UID(pod.Namespace + "-" + name),
				OwnerReferences: []metav1.OwnerReference{owner},
			},
			Spec: *volume.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy(),
		}
		legacyscheme.Scheme.Default(claim)
		if err := c.put(claim); err != nil {
			return err
		}
	}
	return nil
}

// defaultClasses gives claims that name no storage class the default one.
func (c *cluster) defaultClasses() error {
	class, err := util.GetDefaultClass(c.Storage().V1().StorageClasses().Lister())
	if err != nil || class == nil {
		return err
	}
	for _, object := range c.of(&v1.PersistentVolumeClaim{}).List() {
		if claim := object.(*v1.PersistentVolumeClaim); claim.Spec.StorageClassName == nil {
			claim = claim.DeepCopy()
			claim.Spec.StorageClassName = &class.Name
			if err := c.put(claim); err != nil {
				return err
			}
		}
	}
	return nil
}
