package main

import (
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
)

// factory makes informers that follow no server: what is put into one has reached every handler when put returns. So a
// cluster needs no waiting, and the same input gives the same output.
type factory struct {
	informers.SharedInformerFactory
	informers map[reflect.Type]*informer
	revision  int
}

func newFactory() *factory {
	return &factory{
		SharedInformerFactory: informers.NewSharedInformerFactory(nil, 0),
		informers:             map[reflect.Type]*informer{},
	}
}

func (f *factory) InformerFor(kind runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.of(kind)
}

func (f *factory) of(kind runtime.Object) *informer {
	known, ok := f.informers[reflect.TypeOf(kind)]
	if !ok {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		known = &informer{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
		f.informers[reflect.TypeOf(kind)] = known
	}
	return known
}

// put makes an object what is known of it, and gives it the next resource version.
func (f *factory) put(object runtime.Object) error {
	f.revision++
	object.(metav1.Object).SetResourceVersion(strconv.Itoa(f.revision))
	return f.of(object).put(object)
}

// The groups the scheduler and admission ask for; those of the embedded factory would not ask this one for informers.

func (f *factory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *factory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *factory) Storage() storage.Interface       { return storage.New(f, "", nil) }
func (f *factory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *factory) Node() node.Interface             { return node.New(f, "", nil) }
func (f *factory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }

// informer keeps the objects of one kind.
type informer struct {
	cache.SharedIndexInformer
	cache.Indexer
	handlers []cache.ResourceEventHandler
}

func (i *informer) put(object runtime.Object) error {
	before, exists, err := i.Indexer.Get(object)
	if err != nil {
		return err
	}
	if err := i.Indexer.Update(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		if exists {
			handler.OnUpdate(before, object)
		} else {
			handler.OnAdd(object, false)
		}
	}
	return nil
}

// registration is of a handler that has seen all there is.
type registration struct{}

func (registration) HasSynced() bool { return true }

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	for _, object := range i.Indexer.List() {
		handler.OnAdd(object, true)
	}
	return registration{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.Indexer.AddIndexers(indexers) }
func (i *informer) GetStore() cache.Store                     { return i.Indexer }
func (i *informer) GetIndexer() cache.Indexer                 { return i.Indexer }
func (i *informer) HasSynced() bool                           { return true }
