//! The promises of the store, on random histories.

use std::collections::BTreeMap;

use karpenter_model::clock::FixedClock;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Verb {
    Create(u8),
    Update(u8, u8, bool),
    Delete(u8),
    Finalize(u8, bool),
}

fn verbs() -> impl Strategy<Value = Vec<Verb>> {
    let name = 0_u8..4;
    let verb = prop_oneof![
        name.clone().prop_map(Verb::Create),
        (name.clone(), 0_u8..3, any::<bool>()).prop_map(|(n, value, stale)| Verb::Update(n, value, stale)),
        name.clone().prop_map(Verb::Delete),
        (name, any::<bool>()).prop_map(|(n, held)| Verb::Finalize(n, held)),
    ];
    prop::collection::vec(verb, 0..60)
}

fn store() -> (Store, Arc<Resource>) {
    let store = Store::new(
        Arc::new(FixedClock(jiff::Timestamp::UNIX_EPOCH)),
        7,
        Kept { changes: 1_000, age: std::time::Duration::MAX },
    );
    let resource = store.registry().get("", "v1", "configmaps").expect("built in");
    (store, resource)
}

fn play(store: &mut Store, resource: &Resource, verb: &Verb) -> Result<(), Refusal> {
    let key = |name: &u8| Key::new("default", format!("m{name}"));
    let options = WriteOptions::default();
    let merge = |body: Value| Patch { kind: PatchKind::Merge, body };
    match verb {
        Verb::Create(name) => {
            let object = json!({"metadata": {"name": key(name).name}, "data": {"v": "0"}});
            store.create(resource, "default", object, &options).map(drop)
        }
        Verb::Update(name, value, stale) => {
            let mut body = json!({"data": {"v": value.to_string()}});
            if *stale {
                body["metadata"] = json!({"resourceVersion": "1"});
            }
            store.patch(resource, &key(name), &merge(body), Part::Main, &options).map(drop)
        }
        Verb::Delete(name) => store.delete(resource, &key(name), &DeleteOptions::default()).map(drop),
        Verb::Finalize(name, held) => {
            let finalizers = if *held { json!(["a/b"]) } else { Value::Null };
            let body = json!({"metadata": {"finalizers": finalizers}});
            store.patch(resource, &key(name), &merge(body), Part::Main, &options).map(drop)
        }
    }
}

fn contents(store: &Store, resource: &Resource) -> BTreeMap<String, Arc<Value>> {
    let page = store.list(resource, &ListQuery::default()).expect("listed");
    page.items.into_iter().map(|o| (object::name(&o).to_owned(), o)).collect()
}

proptest! {
    #[test]
    fn a_list_with_the_log_applied_gives_the_next_list(before in verbs(), after in verbs()) {
        let (mut store, resource) = store();
        for verb in &before {
            let _ = play(&mut store, &resource, verb);
        }
        let mut replica = contents(&store, &resource);
        let from = store.revision();
        for verb in &after {
            let _ = play(&mut store, &resource, verb);
        }
        for change in store.changes_since(&resource.table(), from).expect("kept") {
            let name = object::name(&change.object).to_owned();
            let had = replica.contains_key(&name);
            prop_assert_eq!(had, change.kind != ChangeKind::Added, "{}", name);
            match change.kind {
                ChangeKind::Deleted => replica.remove(&name),
                ChangeKind::Added | ChangeKind::Modified => replica.insert(name, change.object),
            };
        }
        prop_assert_eq!(replica, contents(&store, &resource));
    }

    #[test]
    fn a_refused_verb_changes_nothing_and_an_accepted_one_moves_the_revision_forward(verbs in verbs()) {
        let (mut store, resource) = store();
        for verb in &verbs {
            let (revision, before) = (store.revision(), contents(&store, &resource));
            let answer = play(&mut store, &resource, verb);
            let after = contents(&store, &resource);
            prop_assert!(store.revision() >= revision);
            prop_assert_eq!(store.revision() == revision, before == after, "{:?}", verb);
            if answer.is_err() {
                prop_assert_eq!(store.revision(), revision);
            }
            for object in after.values() {
                prop_assert!(object::revision(object) <= store.revision());
            }
        }
    }

    #[test]
    fn equal_histories_give_equal_bytes(verbs in verbs()) {
        let mut results = (0..2).map(|_| {
            let (mut store, resource) = store();
            for verb in &verbs {
                let _ = play(&mut store, &resource, verb);
            }
            contents(&store, &resource)
        });
        prop_assert_eq!(results.next(), results.next());
    }
}
