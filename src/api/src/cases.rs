//! Accept/reject tables for every rule of the custom resource schemas, as data.
//!
//! The same tables run against the schema in this crate, against the simulated API server and against a
//! real kube-apiserver, so that the three can only agree. A case is a base object, a merge patch and what
//! is expected; some go on with an update or a status write, and then that is about this last step.

use serde::Deserialize;
use serde_json::{Map, Value, json};

mod sizes;

/// One object and the answer an API server must give.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Kind and what is special about the object; unique.
    pub name: String,
    /// The object to create; named uniquely.
    pub object: Value,
    /// Step after a successful creation.
    pub then: Step,
    pub expected: Expected,
}

/// Step after the object was created.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing: what is expected is about the creation.
    Nothing,
    /// A merge patch of the object.
    Update(Value),
    /// A merge patch of the status subresource; holds the patch including its `status` key.
    Status(Value),
}

/// Answer that the API server must give.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Accepted, and what is stored contains this.
    Accept { stored: Value },
    /// Refused, and the answer mentions this: the text of the rule or the path of the field.
    Reject { mentions: String },
}

/// Every case, grouped by kind.
pub fn all() -> Vec<Case> {
    [
        include_str!("cases/capacitybuffer.yaml"),
        include_str!("cases/ec2nodeclass.yaml"),
        include_str!("cases/nodeclaim.yaml"),
        include_str!("cases/nodeoverlay.yaml"),
        include_str!("cases/nodepool.yaml"),
    ]
    .into_iter()
    .flat_map(|text| {
        let table: Table = serde_saphyr::from_str(text).expect("invariant: the tables are part of the crate");
        table.into_cases()
    })
    .collect()
}

#[derive(Deserialize)]
struct Table {
    kind: String,
    base: Value,
    cases: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    patch: Value,
    update: Option<Value>,
    status: Option<Value>,
    stored: Option<Value>,
    reject: Option<String>,
}

impl Table {
    fn into_cases(self) -> Vec<Case> {
        let Self { kind, base, cases } = self;
        let rows = cases.into_iter().enumerate().map(|(index, row)| row.into_case(&kind, &base, index));
        rows.chain(sizes::cases(&kind, &base)).collect()
    }
}

impl Row {
    fn into_case(self, kind: &str, base: &Value, index: usize) -> Case {
        let mut object = base.clone();
        if !self.patch.is_null() {
            merge(&mut object, &self.patch);
        }
        object["metadata"] = json!({"name": format!("case-{index:03}")});
        let then = match (self.update, self.status) {
            (Some(update), _) => Step::Update(update),
            (None, Some(status)) => Step::Status(json!({"status": status})),
            (None, None) => Step::Nothing,
        };
        let expected = match self.reject {
            Some(mentions) => Expected::Reject { mentions },
            None => Expected::Accept { stored: self.stored.unwrap_or_else(|| json!({})) },
        };
        Case { name: format!("{kind}: {}", self.name), object, then, expected }
    }
}

/// Changes `target` by a JSON merge patch (RFC 7386): objects merge, `null` removes, the rest replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
