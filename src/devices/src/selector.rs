//! CEL selectors of devices: compiled once per text, run once per device.
//!
//! An expression sees `device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name` (a
//! quantity) and `device.allowMultipleAllocations`. A domain a device has nothing of is an empty map, as in the
//! Kubernetes scheduler, so that `has(...)` and `"name" in ...` answer instead of failing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use karpenter_model::Quantity;
use karpenter_model::device::{AttributeValue, Device};
use kube_cel::KubeCelExt;
use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, Value};

/// Result of a selector for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SelectorMatch {
    /// The device matches.
    Yes,
    /// The device does not match.
    No,
    /// The selector cannot tell.
    Failed(String),
}

/// Number of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SelectorId(usize);

/// A compiled selector.
#[derive(Debug)]
struct Compiled {
    expression: Expression,
    /// Texts in it, any of which may be a domain.
    texts: BTreeSet<String>,
}

/// Selectors of a pass with their results for its devices.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    selectors: Vec<(Compiled, OnceLock<Vec<SelectorMatch>>)>,
    /// Number of the selector of each text, or what is wrong with the text.
    numbers: BTreeMap<String, Result<SelectorId, String>>,
}

impl Selectors {
    /// Returns the number of selector `text`, or the error of the compiler. It is compiled the first time.
    pub(crate) fn add(&mut self, text: &str) -> Result<SelectorId, String> {
        if let Some(known) = self.numbers.get(text) {
            return known.clone();
        }
        let parsed = Parser::new().enable_optional_syntax(true).parse(&indexed(text));
        let id = match parsed {
            Ok(expression) => {
                self.selectors.push((Compiled { expression, texts: texts(text) }, OnceLock::new()));
                Ok(SelectorId(self.selectors.len() - 1))
            }
            Err(errors) => Err(errors.to_string().replace('\n', " ")),
        };
        self.numbers.insert(text.to_owned(), id.clone());
        id
    }

    /// Returns the results of `selector` for each of `devices`, given with their drivers, always the same ones.
    pub(crate) fn of<'d>(
        &self,
        selector: SelectorId,
        devices: impl Iterator<Item = (&'d str, &'d Device)>,
    ) -> &[SelectorMatch] {
        let (compiled, matches) = &self.selectors[selector.0];
        matches.get_or_init(|| compiled.run(devices))
    }
}

impl Compiled {
    fn run<'d>(&self, devices: impl Iterator<Item = (&'d str, &'d Device)>) -> Vec<SelectorMatch> {
        let mut context = Context::default().with_all();
        let mut quantities = BTreeMap::new();
        let judge = |(driver, device)| {
            let value = self.view(driver, device, &mut quantities, &mut context)?;
            context.add_variable_from_value("device", value);
            match Value::resolve(&self.expression, &context).map_err(|error| error.to_string())? {
                Value::Bool(true) => Ok(SelectorMatch::Yes),
                Value::Bool(false) => Ok(SelectorMatch::No),
                other => Err(format!("the answer is {other:?}, not true or false")),
            }
        };
        devices.map(judge).map(|verdict| verdict.unwrap_or_else(SelectorMatch::Failed)).collect()
    }

    /// `device` as expressions see it.
    fn view(
        &self,
        driver: &str,
        device: &Device,
        quantities: &mut BTreeMap<Quantity, Value>,
        context: &mut Context<'_>,
    ) -> Result<Value, String> {
        let domains = || self.texts.iter().map(|text| (text.clone(), HashMap::new())).collect();
        let mut attributes: HashMap<String, HashMap<String, Value>> = domains();
        for (name, value) in &device.attributes {
            let value = match value {
                AttributeValue::Int(number) => Value::Int(*number),
                AttributeValue::Bool(truth) => Value::Bool(*truth),
                AttributeValue::Text(text) => Value::from(text.as_str()),
                AttributeValue::Version(text) => call("semver", text, context)?,
            };
            let (domain, name) = name.parts();
            attributes.entry(domain.to_owned()).or_default().insert(name.to_owned(), value);
        }
        let mut capacity: HashMap<String, HashMap<String, Value>> = domains();
        for (name, amount) in &device.capacity {
            let value = if let Some(known) = quantities.get(&amount.value) {
                known.clone()
            } else {
                let value = call("quantity", &amount.value.to_string(), context)?;
                quantities.insert(amount.value, value.clone());
                value
            };
            let (domain, name) = name.parts();
            capacity.entry(domain.to_owned()).or_default().insert(name.to_owned(), value);
        }
        let nested = |maps: HashMap<String, HashMap<String, Value>>| -> HashMap<String, Value> {
            maps.into_iter().map(|(domain, map)| (domain, Value::from(map))).collect()
        };
        Ok(Value::from(HashMap::from([
            ("driver".to_owned(), Value::from(driver)),
            ("attributes".to_owned(), Value::from(nested(attributes))),
            ("capacity".to_owned(), Value::from(nested(capacity))),
            ("allowMultipleAllocations".to_owned(), Value::Bool(device.shareable)),
        ])))
    }
}

/// Returns the value of `function` for `text`.
fn call(function: &str, text: &str, context: &mut Context<'_>) -> Result<Value, String> {
    let expression = Parser::new().parse(&format!("{function}(text)")).map_err(|error| error.to_string())?;
    context.add_variable_from_value("text", text);
    Value::resolve(&expression, context).map_err(|error| error.to_string())
}

/// `source` with `.?name` written as `[?"name"]`: the same, and a missing name is no failure there.
fn indexed(source: &str) -> String {
    let (mut out, mut quote, mut rest) = (String::new(), None, source);
    while let Some(next) = rest.chars().next() {
        if quote.is_none() && rest.starts_with(".?") {
            let name = &rest[2..];
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            out.push_str(&format!("[?\"{}\"]", &name[..end]));
            rest = &name[end..];
            continue;
        }
        match quote {
            None if matches!(next, '"' | '\'') => quote = Some(next),
            Some(open) if open == next => quote = None,
            _ => {}
        }
        out.push(next);
        rest = &rest[next.len_utf8()..];
    }
    out
}

/// Returns the texts between quotes in `source`; more than there are string literals does no harm.
fn texts(source: &str) -> BTreeSet<String> {
    let quoted = |quote: char| source.split(quote).skip(1).step_by(2).map(str::to_owned);
    quoted('"').chain(quoted('\'')).collect()
}

#[cfg(test)]
mod tests {
    use karpenter_model::QualifiedName;
    use karpenter_model::device::DeviceCapacity;

    use super::*;

    fn device() -> Device {
        let name = |text: &str| QualifiedName::within(text, "gpu.example.com");
        let capacity = |bytes| DeviceCapacity { value: Quantity::from_bytes(bytes), policy: None };
        Device {
            name: "gpu-0".into(),
            attributes: BTreeMap::from([
                (name("model"), AttributeValue::Text("a100".to_owned())),
                (name("index"), AttributeValue::Int(3)),
                (name("fast"), AttributeValue::Bool(true)),
                (name("driverVersion"), AttributeValue::Version("1.10.0".to_owned())),
                (name("rack.example.com/row"), AttributeValue::Int(7)),
            ]),
            capacity: BTreeMap::from([(name("memory"), capacity(40 << 30))]),
            draws: Vec::new(),
            shareable: true,
            taints: Vec::new(),
            unsupported: None,
        }
    }

    fn verdict(text: &str) -> Result<SelectorMatch, String> {
        let mut selectors = Selectors::default();
        let id = selectors.add(text)?;
        Ok(selectors.of(id, std::iter::once(("gpu.example.com", &device())))[0].clone())
    }

    #[test]
    fn expressions_see_what_a_device_is() {
        for (text, expected) in [
            (r#"device.driver == "gpu.example.com""#, true),
            ("device.driver == 'other.example.com'", false),
            (r#"device.attributes["gpu.example.com"].model == "a100""#, true),
            ("device.attributes['gpu.example.com'].index >= 4", false),
            ("device.attributes['gpu.example.com'].fast", true),
            ("device.attributes['rack.example.com'].row == 7", true),
            ("device.attributes['gpu.example.com'].model.startsWith('a')", true),
            ("device.attributes['gpu.example.com'].model in ['h100', 'a100']", true),
            ("device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.9.0'))", true),
            ("device.attributes['gpu.example.com'].driverVersion.compareTo(semver('1.10.0')) == 0", true),
            ("device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) == 0", true),
            ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('41Gi'))", false),
            ("device.allowMultipleAllocations", true),
            ("has(device.attributes['gpu.example.com'].model)", true),
            ("has(device.attributes['gpu.example.com'].missing)", false),
            ("has(device.attributes['absent.example.com'].model)", false),
            ("'model' in device.attributes['absent.example.com']", false),
            ("'gpu.example.com' in device.capacity", true),
            ("device.attributes['gpu.example.com'].?missing.orValue('none') == 'none'", true),
        ] {
            let expected = if expected { SelectorMatch::Yes } else { SelectorMatch::No };
            assert_eq!(verdict(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_a_failure_and_what_is_no_expression_an_error() {
        for text in [
            "device.attributes['gpu.example.com'].missing == 1",
            "device.attributes['absent.example.com'].model == 'a100'",
            "device.driver",
            "device.driver > 3",
        ] {
            assert!(matches!(verdict(text), Ok(SelectorMatch::Failed(_))), "{text}: {:?}", verdict(text));
        }
        for text in ["device.driver ==", "((", "device.driver == \"unfinished"] {
            assert!(verdict(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_is_compiled_and_run_once_however_often_it_is_used() {
        let mut selectors = Selectors::default();
        let id = selectors.add("device.allowMultipleAllocations").expect("it compiles");
        assert_eq!(selectors.add("device.allowMultipleAllocations"), Ok(id));
        assert_eq!(selectors.selectors.len(), 1);
        let first = selectors.of(id, std::iter::once(("gpu.example.com", &device()))).as_ptr();
        assert_eq!(selectors.of(id, std::iter::empty()).as_ptr(), first, "devices are not looked at again");
    }
}
