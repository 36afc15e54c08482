package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

// startDaemons gives nodes the pods of DaemonSets they lack, as the controller of DaemonSets does, and binds them before
// all others: on a node that comes up they are there first.
func (c *cluster) startDaemons(ctx context.Context) error {
	there := map[string]bool{}
	for _, object := range c.of(&v1.Pod{}).List() {
		pod := object.(*v1.Pod)
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
			node := pod.Spec.NodeName
			if node == "" {
				node, _ = util.GetTargetNodeName(pod)
			}
			there[pod.Namespace+"/"+owner.Name+"/"+node] = true
		}
	}
	for _, node := range sorted[*v1.Node](c.of(&v1.Node{}).List()) {
		for _, set := range sorted[*appsv1.DaemonSet](c.of(&appsv1.DaemonSet{}).List()) {
			should, _ := daemon.NodeShouldRunDaemonPod(klog.FromContext(ctx), node, set)
			if !should || there[set.Namespace+"/"+set.Name+"/"+node.Name] {
				continue
			}
			pod, err := c.daemonPod(ctx, set, node)
			if err != nil {
				return err
			}
			if err := c.change(pod); err != nil {
				return err
			}
			if _, err := c.bind(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// daemonPod is the pod of a DaemonSet for a node.
func (c *cluster) daemonPod(ctx context.Context, set *appsv1.DaemonSet, node *v1.Node) (*v1.Pod, error) {
	template := util.CreatePodTemplate(set.Spec.Template, nil, "")
	owner := metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	pod, err := controller.GetPodFromTemplate(&template, set, owner)
	if err != nil {
		return nil, err
	}
	pod.Namespace = set.Namespace
	pod.Name = fmt.Sprintf("%s-%s", set.Name, node.Name)
	pod.UID = types.UID(pod.Namespace + "-" + pod.Name)
	pod.Spec.Affinity = util.ReplaceDaemonSetPodNodeNameNodeAffinity(pod.Spec.Affinity, node.Name)
	return pod, c.admit(ctx, pod)
}

func sorted[T metav1.Object](objects []any) []T {
	var list []T
	for _, object := range objects {
		list = append(list, object.(T))
	}
	slices.SortFunc(list, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list
}
