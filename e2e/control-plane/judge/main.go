// Command judge binds pods as the Kubernetes scheduler would: it links the scheduler of the pinned release and gives it a
// cluster from standard input.
//
// Each line of input is a JSON list of Kubernetes objects, each line of output what became of them: a list of the pods that
// are bound afterwards, of the volumes that were bound or made on the way, and of why the other pods are refused. Nothing of
// one line is kept for the next. Pods are as their makers write them: they are defaulted, admitted and validated as the API
// server does. Nodes run the pods of their DaemonSets. There is no preemption.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(klog.Logger{})
	tells := slices.Contains(os.Args[1:], "tries")
	input := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
		result, err := judge(context.Background(), line, tells)
		if err != nil {
			result = &verdict{Error: err.Error()}
		}
		if err := output.Encode(result); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "judge:", err)
	os.Exit(1)
}

// verdict is what became of the objects of one line.
type verdict struct {
	// Error says why the objects are none of a cluster.
	Error string `json:"error,omitempty"`
	// Changed are the objects as they are now, of those that are new or were changed.
	Changed []any `json:"changed"`
	// Refused are the reasons by namespace and name of the pods that no node takes.
	Refused map[string]string `json:"refused"`
	// Tries are what the scheduler found for each pod that it tried, in order.
	Tries []try `json:"tries,omitempty"`
}

// try is one attempt to schedule a pod.
type try struct {
	// Pod is the pod as it was admitted.
	Pod *v1.Pod `json:"pod"`
	// Scores are those of the nodes that fit, by their names.
	Scores map[string]int64 `json:"scores"`
	// After is the number of changed objects that were there before.
	After int `json:"after"`
}

func judge(ctx context.Context, line []byte, tells bool) (*verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster, err := newCluster(ctx)
	if err != nil {
		return nil, err
	}
	cluster.tells = tells
	var objects []json.RawMessage
	if err := json.Unmarshal(line, &objects); err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	if err := cluster.load(objects); err != nil {
		return nil, err
	}
	if err := cluster.admitAll(ctx); err != nil {
		return nil, err
	}
	if err := cluster.startDaemons(ctx); err != nil {
		return nil, err
	}
	refused, err := cluster.bindAll(ctx)
	if err != nil {
		return nil, err
	}
	return &verdict{Changed: cluster.changed, Refused: refused, Tries: cluster.tries}, nil
}
