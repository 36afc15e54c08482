//! Lists that are streamed, by an API server in memory that can be made to refuse it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_kube_sim::apiserver::{ApiServer, Fault, Rule};
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fixture;
use crate::watch::{Troubles, follow};

/// A watch of the config maps of `default`, and what it has shown.
struct Following {
    server: ApiServer,
    maps: Api<ConfigMap>,
    said: Arc<Mutex<Vec<String>>>,
    troubles: Troubles,
    stop: CancellationToken,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Following {
    /// Starts a watch of a server that has the maps `present`, after `prepare`.
    async fn start(present: &[&str], prepare: impl FnOnce(&ApiServer)) -> Self {
        let server = fixture::server();
        let client = server.client();
        Self::behind(client, server, present, prepare).await
    }

    /// Starts a watch by a client that reaches the server by a way of its own.
    async fn behind(
        client: kube::Client,
        server: ApiServer,
        present: &[&str],
        prepare: impl FnOnce(&ApiServer),
    ) -> Self {
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let (troubles, stop) = (Troubles::default(), CancellationToken::new());
        let following = Self { server, maps, said: Arc::default(), troubles, stop };
        for name in present {
            following.create(name).await;
        }
        prepare(&following.server);
        let (said, stop, maps) =
            (Arc::clone(&following.said), following.stop.clone(), following.maps.clone());
        let troubles = following.troubles.clone();
        tokio::spawn(async move {
            let listener = |seen: Seen<ConfigMap>| {
                let text = match seen {
                    Seen::Listing => "listing".to_owned(),
                    Seen::Listed(map) => format!("listed {}", map.name_any()),
                    Seen::Applied(map) => format!("applied {}", map.name_any()),
                    Seen::Deleted(map) => format!("deleted {}", map.name_any()),
                    Seen::Complete(keys) => {
                        let names: Vec<String> = keys.into_iter().map(|(_, name)| name).collect();
                        format!("complete {}", names.join(","))
                    }
                };
                said.lock().push(text);
            };
            follow("ConfigMap", maps, &troubles, stop, listener).await;
        });
        following
    }

    async fn create(&self, name: &str) {
        let map: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
        self.maps.create(&PostParams::default(), &map).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        self.maps.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Returns the events since the last call, once nothing more comes for a minute.
    async fn said(&self) -> Vec<String> {
        sleep(Duration::from_mins(1)).await;
        std::mem::take(&mut *self.said.lock())
    }
}

fn refuse(server: &ApiServer, verb: &str, code: u16, reason: &'static str, times: u32) {
    let rule = Rule::on(verb).resource("configmaps").times(times);
    server.faults().inject(rule, Fault::refuse(code, reason, "told so"));
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_by_the_watch_and_changes_follow() {
    let following =
        Following::start(&["a", "b"], |server| refuse(server, "list", 500, "InternalError", u32::MAX)).await;
    assert_eq!(following.said().await, ["listing", "listed a", "listed b", "complete a,b"]);
    following.create("c").await;
    following.delete("a").await;
    assert_eq!(following.said().await, ["applied c", "deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_lists_is_asked_for_pages() {
    for (code, reason) in [(422, "Invalid"), (400, "BadRequest"), (500, "InternalError")] {
        let following = Following::start(&["a"], |server| refuse(server, "watch", code, reason, 1)).await;
        assert_eq!(following.said().await, ["listing", "listing", "listed a", "complete a"]);
        following.create("b").await;
        assert_eq!(following.said().await, ["applied b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_is_asked_for_the_stream_again() {
    let no_pages = |server: &ApiServer| {
        refuse(server, "list", 500, "InternalError", u32::MAX);
        refuse(server, "watch", 503, "ServiceUnavailable", 2);
    };
    let following = Following::start(&["a"], no_pages).await;
    assert_eq!(following.said().await, ["listing", "listing", "listing", "listed a", "complete a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was_and_nothing_is_lost() {
    let following = Following::start(&["a"], |_| {}).await;
    assert_eq!(following.said().await, ["listing", "listed a", "complete a"]);
    let faults = following.server.faults();
    refuse(&following.server, "watch", 500, "InternalError", 3);
    faults.break_watches("configmaps");
    following.create("b").await;
    following.delete("a").await;
    assert_eq!(following.said().await, ["applied b", "deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_brings_another_list() {
    let following = Following::start(&["a", "b"], |_| {}).await;
    following.said().await;
    refuse(&following.server, "watch", 410, "Expired", 1);
    following.server.faults().break_watches("configmaps");
    following.delete("a").await;
    assert_eq!(following.said().await, ["listing", "listed b", "complete b"]);
}

#[tokio::test(start_paused = true)]
async fn a_trouble_says_what_was_answered_to_what_and_ends_with_the_next_change() {
    let following =
        Following::start(&["a"], |server| refuse(server, "watch", 403, "Forbidden", u32::MAX)).await;
    following.said().await;
    let trouble = following.troubles.last("ConfigMap").expect("it is not allowed");
    assert_eq!((trouble.verb, trouble.code), ("watch", Some(403)));
    assert!(trouble.text.contains("told so"), "{}", trouble.text);
    following.server.faults().clear();
    following.said().await;
    assert_eq!(following.troubles.last("ConfigMap"), None);

    // It goes on where it broke, so no list says that it works again.
    refuse(&following.server, "watch", 503, "ServiceUnavailable", 1);
    following.server.faults().break_watches("configmaps");
    following.said().await;
    assert!(following.troubles.last("ConfigMap").is_some());
    following.create("b").await;
    following.said().await;
    assert_eq!(following.troubles.last("ConfigMap"), None);
}

/// A proxy that answers each watch with `200 OK` and this body, and ends it there, until it is repaired.
#[derive(Clone)]
struct Proxy {
    body: &'static str,
    /// Number of watches it has ended; `None` once it is repaired.
    ended: Arc<Mutex<Option<u32>>>,
}

impl Proxy {
    async fn start(body: &'static str, present: &[&str]) -> (Self, Following) {
        let (proxy, server) = (Self { body, ended: Arc::new(Mutex::new(Some(0))) }, fixture::server());
        let (passing, behind) = (proxy.clone(), server.client());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (passing, behind) = (passing.clone(), behind.clone());
            async move {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                if let Some(ended) = passing.ended.lock().as_mut().filter(|_| is_watch) {
                    *ended += 1;
                    // No time passes while tasks are busy: without a pause between watches the test would not end.
                    assert!(*ended < 1_000, "asked again without a pause");
                    return Ok(http::Response::new(Body::from(passing.body.as_bytes().to_vec())));
                }
                behind.send(request).await
            }
        });
        let client = kube::Client::new(service, "default");
        let following = Following::behind(client, server, present, |_| {}).await;
        (proxy, following)
    }

    /// Lets everything through from now on; returns how many watches it has ended.
    fn repair(&self) -> u32 {
        self.ended.lock().take().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_before_its_list_is_complete_is_asked_for_with_back_off() {
    let part = concat!(
        r#"{"type": "ADDED", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}"#,
        "\n",
    );
    for (body, often) in [("", 20), (part, 200)] {
        let (proxy, following) = Proxy::start(body, &["a"]).await;
        following.said().await;
        assert!(following.troubles.last("ConfigMap").is_some() || !body.is_empty());
        let ended = proxy.repair();
        assert!((2..often).contains(&ended), "{ended} in a minute");
        following.said().await;
        following.create("b").await;
        assert_eq!(following.said().await, ["applied b"]);
        assert_eq!(following.troubles.last("ConfigMap"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_asked_for_with_back_off_and_nothing_is_lost() {
    let (proxy, following) = Proxy::start("", &["a"]).await;
    proxy.repair();
    assert_eq!(following.said().await.last().map(String::as_str), Some("complete a"));
    *proxy.ended.lock() = Some(0);
    following.server.faults().break_watches("configmaps");
    following.create("b").await;
    assert_eq!(following.said().await, Vec::<String>::new());
    let ended = proxy.repair();
    assert!((2..20).contains(&ended), "{ended} in a minute");
    assert_eq!(following.said().await, ["applied b"]);
}
