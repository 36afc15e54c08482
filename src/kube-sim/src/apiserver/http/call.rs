//! One request about objects: which verb it is, what may go wrong on purpose, and what the store says.

use std::borrow::Cow;

use http::{Method, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Incoming,
    answer::{self, Body},
    route::Target,
    view::{View, metadata_only},
    watch,
};
use crate::apiserver::{
    ApiServer, columns,
    faults::{self, Fate, HungUp},
    object::{self, Key},
    refusal::Refusal,
    selector::Selectors,
    store::{DeleteOptions, Deleted, ListQuery, Part, Patch, PatchKind, Store, WriteOptions},
    versions,
};

/// Answers a request about objects, unless the connection is to end first.
pub(super) async fn answer(
    server: &ApiServer,
    target: &Target,
    incoming: &Incoming,
) -> Result<Result<Response<Body>, Refusal>, HungUp> {
    let verb = match verb(target, incoming) {
        Ok(verb) => verb,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let resource = match target.subresource.as_str() {
        "" => target.resource.plural.clone(),
        subresource => format!("{}/{subresource}", target.resource.plural),
    };
    let request = faults::Request { verb, resource: &resource, name: &target.name };
    let (delay, fate) = server.faults().strike(request);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let late = match fate {
        Fate::Refused(refusal) => return Ok(Err(refusal)),
        Fate::HungUp => return Err(HungUp),
        Fate::Lost => {
            let _lost = carry_out(server, verb, target, incoming);
            return Err(HungUp);
        }
        Fate::Answered(late) => late,
    };
    let answer = carry_out(server, verb, target, incoming);
    if !late.is_zero() {
        tokio::time::sleep(late).await;
    }
    Ok(answer)
}

fn carry_out(
    server: &ApiServer,
    verb: &str,
    target: &Target,
    incoming: &Incoming,
) -> Result<Response<Body>, Refusal> {
    if verb == "watch" {
        return watch::start(server, target, &incoming.query, View::wanted(&incoming.accept));
    }
    let body = decode(incoming)?;
    if incoming.query.get("dryRun").is_empty() {
        if matches!(verb, "get" | "list") {
            return server.read(|store| read(store, target, incoming));
        }
        return server.write(|store| write(store, verb, target, incoming, body));
    }
    let mut scratch = server.read(Clone::clone);
    write(&mut scratch, verb, target, incoming, body)
}

fn verb(target: &Target, incoming: &Incoming) -> Result<&'static str, Refusal> {
    let one = !target.name.is_empty();
    match incoming.method {
        Method::GET if incoming.query.is_true("watch") => Ok("watch"),
        Method::GET if one => Ok("get"),
        Method::GET => Ok("list"),
        Method::POST if one == target.subresource.is_empty() => Err(Refusal::method_not_allowed()),
        Method::POST => Ok("create"),
        Method::PUT if one => Ok("update"),
        Method::PATCH if one => Ok("patch"),
        Method::DELETE if one => Ok("delete"),
        Method::DELETE => Ok("deletecollection"),
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn decode(incoming: &Incoming) -> Result<Value, Refusal> {
    if incoming.body.is_empty() {
        return Ok(json!({}));
    }
    if incoming.content_type.contains("protobuf") {
        return Err(Refusal::unsupported_media_type("this server does not speak protobuf; send JSON"));
    }
    if let Ok(value) = serde_json::from_slice(&incoming.body) {
        return Ok(value);
    }
    serde_saphyr::from_slice(&incoming.body)
        .map_err(|error| Refusal::bad_request(format!("the body is neither JSON nor YAML: {error}")))
}

fn read(store: &Store, target: &Target, incoming: &Incoming) -> Result<Response<Body>, Refusal> {
    let resource = &*target.resource;
    let view = View::wanted(&incoming.accept);
    let key = Key::new(&target.namespace, &target.name);
    match (target.name.as_str(), target.subresource.as_str()) {
        ("", _) => list(store, target, incoming, view),
        (_, "" | "status") => {
            let stored = store.get(resource, &key)?;
            Ok(answer::json(StatusCode::OK, &view.one(resource, &stored, store)))
        }
        (_, "scale") => Ok(answer::json(StatusCode::OK, &store.scale(resource, &key)?)),
        _ => Err(Refusal::no_such_path()),
    }
}

/// A list, written from the stored objects: it may be every pod there is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: String,
    api_version: String,
    metadata: Value,
    items: Vec<Cow<'a, Value>>,
}

fn list(store: &Store, target: &Target, incoming: &Incoming, view: View) -> Result<Response<Body>, Refusal> {
    let resource = &*target.resource;
    let page = store.list(resource, &list_query(target, incoming)?)?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.resume.is_empty() {
        metadata["continue"] = json!(page.resume);
        metadata["remainingItemCount"] = json!(page.remaining);
    }
    let (kind, api_version, items) = match view {
        View::Table => {
            let objects: Vec<&Value> = page.items.iter().map(AsRef::as_ref).collect();
            let mut table = columns::table(&resource.columns, &objects, store.now(), page.revision);
            table["metadata"] = metadata;
            return Ok(answer::json(StatusCode::OK, &table));
        }
        View::Metadata => {
            let items = page.items.iter().map(|o| Cow::Owned(metadata_only(o)));
            ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned(), items.collect())
        }
        View::Full => {
            let items = page.items.iter().map(|o| versions::to_served(resource, o));
            (format!("{}List", resource.kind), resource.api_version(), items.collect())
        }
    };
    Ok(answer::json(StatusCode::OK, &List { kind, api_version, metadata, items }))
}

fn list_query(target: &Target, incoming: &Incoming) -> Result<ListQuery, Refusal> {
    let query = &incoming.query;
    Ok(ListQuery {
        namespace: target.namespace.clone(),
        selectors: Selectors::parse(query.get("labelSelector"), query.get("fieldSelector"))?,
        limit: query.get("limit").parse().unwrap_or(0),
        resume: query.get("continue").to_owned(),
    })
}

fn write(
    store: &mut Store,
    verb: &str,
    target: &Target,
    incoming: &Incoming,
    body: Value,
) -> Result<Response<Body>, Refusal> {
    let resource = &*target.resource;
    let key = Key::new(&target.namespace, &target.name);
    let options = WriteOptions {
        manager: incoming.manager.clone(),
        force: incoming.query.is_true("force"),
        strict: incoming.query.get("fieldValidation") == "Strict",
        dry_run: incoming.query.get("dryRun") == "All",
    };
    let part = if target.subresource == "status" { Part::Status } else { Part::Main };
    let (code, stored) = match (verb, target.subresource.as_str()) {
        ("create", "") => (StatusCode::CREATED, store.create(resource, &target.namespace, body, &options)?),
        ("update", "" | "status") => (StatusCode::OK, store.update(resource, &key, body, part, &options)?),
        ("patch", "" | "status") => {
            let existed = store.get(resource, &key).is_ok();
            let patch = Patch { kind: PatchKind::of_content_type(&incoming.content_type)?, body };
            let stored = store.patch(resource, &key, &patch, part, &options)?;
            (if existed { StatusCode::OK } else { StatusCode::CREATED }, stored)
        }
        ("delete", "") => return delete(store, target, &delete_options(incoming, &body)),
        ("deletecollection", "") => {
            let query = list_query(target, incoming)?;
            let deleted = store.delete_collection(resource, &query, &delete_options(incoming, &body))?;
            let list = List {
                kind: format!("{}List", resource.kind),
                api_version: resource.api_version(),
                metadata: json!({"resourceVersion": store.revision().to_string()}),
                items: deleted.iter().map(|o| versions::to_served(resource, o)).collect(),
            };
            return Ok(answer::json(StatusCode::OK, &list));
        }
        _ => return write_subresource(store, verb, target, incoming, &body, &options),
    };
    let view = View::wanted(&incoming.accept);
    Ok(answer::json(code, &view.one(resource, &stored, store)))
}

fn write_subresource(
    store: &mut Store,
    verb: &str,
    target: &Target,
    incoming: &Incoming,
    body: &Value,
    options: &WriteOptions,
) -> Result<Response<Body>, Refusal> {
    let resource = &*target.resource;
    let key = Key::new(&target.namespace, &target.name);
    let success =
        || json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let value = match (verb, target.subresource.as_str()) {
        ("create", "eviction") if resource.is_core("pods") => {
            let options = DeleteOptions::parse(&body["deleteOptions"]);
            store.evict(resource, &key, &options)?;
            success()
        }
        ("create", "binding") if resource.is_core("pods") => {
            store.bind(resource, &key, body)?;
            success()
        }
        ("create", "token") if resource.is_core("serviceaccounts") => {
            store.issue_token(resource, &key, body)?
        }
        ("update", "scale") => store.set_scale(resource, &key, body, options)?,
        ("patch", "scale") => {
            let patch =
                Patch { kind: PatchKind::of_content_type(&incoming.content_type)?, body: body.clone() };
            store.patch_scale(resource, &key, &patch, options)?
        }
        ("update", "finalize") if resource.is_core("namespaces") => {
            versions::to_served(resource, &*store.get(resource, &key)?).into_owned()
        }
        _ => return Err(Refusal::no_such_path()),
    };
    let code = if verb == "create" { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer::json(code, &value))
}

fn delete_options(incoming: &Incoming, body: &Value) -> DeleteOptions {
    let mut options = DeleteOptions::parse(body);
    if let Ok(seconds) = incoming.query.get("gracePeriodSeconds").parse() {
        options.grace_seconds = Some(seconds);
    }
    if !incoming.query.get("propagationPolicy").is_empty() {
        options.propagation =
            DeleteOptions::parse(&json!({"propagationPolicy": incoming.query.get("propagationPolicy")}))
                .propagation;
    }
    options
}

fn delete(store: &mut Store, target: &Target, options: &DeleteOptions) -> Result<Response<Body>, Refusal> {
    let resource = &*target.resource;
    let key = Key::new(&target.namespace, &target.name);
    let value = match store.delete(resource, &key, options)? {
        Deleted::Begun(object) => versions::to_served(resource, &object).into_owned(),
        // Pods answer with themselves even when they are gone at once.
        Deleted::Gone(object) if resource.is_core("pods") => {
            versions::to_served(resource, &object).into_owned()
        }
        Deleted::Gone(object) => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": key.name, "group": resource.group, "kind": resource.plural, "uid": object::uid(&object),
            },
        }),
    };
    Ok(answer::json(StatusCode::OK, &value))
}
