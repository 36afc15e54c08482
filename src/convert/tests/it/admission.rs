//! Emitted objects pass the definitions with their CEL rules, as an API server would apply them.

use karpenter_api::crd_values;
use serde_json::Value;

use crate::goldens::cases;

#[test]
fn everything_that_is_emitted_passes_the_rules_of_the_definitions() {
    let validator = kube_cel::Validator::new();
    let definitions: Vec<(Value, Value)> = crd_values()
        .into_iter()
        .map(|crd| {
            let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            (crd["spec"]["names"]["kind"].clone(), schema)
        })
        .collect();
    let mut seen = 0;
    for case in cases() {
        // Objects of v1 in the input are not ours, and may be wrong.
        if case.name.starts_with("v1-") {
            continue;
        }
        for object in serde_saphyr::from_multiple::<Value>(&case.outcome.manifests).unwrap() {
            let Some((_, schema)) = definitions.iter().find(|(kind, _)| *kind == object["kind"]) else {
                continue;
            };
            // Twice, because defaults inside an object that was just filled in are not looked for.
            let stored = kube_cel::apply_defaults(schema, &kube_cel::apply_defaults(schema, &object));
            let compiled = kube_cel::compile_schema(schema);
            let outcome = validator.validate_compiled(&compiled, &stored, None);
            assert!(outcome.is_ok(), "{}: {:?}\n{object}", case.name, outcome.err());
            seen += 1;
        }
    }
    assert!(seen >= 40, "{seen}");
}
