//! Expressions in the kubelet block: a number that depends on the instance type.
//!
//! The language is CEL. What an expression may use is checked when it is compiled, so that evaluation fails only for what
//! depends on the type, such as a division by zero. Where whole numbers and fractions meet, the whole numbers become
//! fractions: the engine has no arithmetic of both.

use std::fmt;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, Value, functions};

/// Properties of a type that an expression can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables<'a> {
    /// Name of the type.
    pub instance_type: &'a str,
    /// Virtual processors.
    pub vcpus: i64,
    /// Advertised memory.
    pub memory_mib: i64,
    /// Interfaces of the default network card.
    pub default_enis: i64,
    /// IPv4 addresses of an interface.
    pub ips_per_eni: i64,
    /// Pods: the default of the family while `maxPods` is evaluated, its result afterwards.
    pub max_pods: i64,
}

/// A compiled expression whose result is a number.
#[derive(Clone, Debug)]
pub struct Program(IdedExpr);

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Double,
    Bool,
    Text,
    Ints,
    Texts,
}

const VARIABLES: [(&str, Kind); 6] = [
    ("instance_type", Kind::Text),
    ("vcpus", Kind::Int),
    ("memory_mib", Kind::Int),
    ("default_enis", Kind::Int),
    ("ips_per_eni", Kind::Int),
    ("max_pods", Kind::Int),
];

const ORDER: [&str; 4] =
    [operators::LESS, operators::LESS_EQUALS, operators::GREATER, operators::GREATER_EQUALS];
const EQUALITY: [&str; 2] = [operators::EQUALS, operators::NOT_EQUALS];

thread_local! {
    static FUNCTIONS: Context<'static> = {
        let mut context = Context::empty();
        context.add_function("min", functions::min);
        context.add_function("max", functions::max);
        context.add_function("int", functions::int);
        context.add_function("double", functions::double);
        context.add_function("size", functions::size);
        context.add_function("contains", functions::contains);
        context.add_function("startsWith", functions::starts_with);
        context.add_function("endsWith", functions::ends_with);
        context.add_function("matches", functions::matches);
        context
    };
}

impl Program {
    /// Compiles a text.
    ///
    /// # Errors
    /// What is wrong with it: syntax, a name that there is not, values that do not go together, no number as result.
    pub fn compile(text: &str) -> Result<Self, String> {
        if is_too_deep(text) {
            return Err(format!("it has more than {LONGEST} characters, or more than {DEEPEST} levels"));
        }
        let parsed = Parser::default().parse(text);
        // The parser draws the place over several lines.
        let mut expression = parsed.map_err(|errors| one_line(&errors.to_string()))?;
        match kind(&mut expression)? {
            Kind::Int | Kind::Double => Ok(Self(expression)),
            other => Err(format!("the result is {other} and must be a number")),
        }
    }

    /// The result for one type; a fraction is cut off.
    ///
    /// # Errors
    /// Why there is none.
    pub fn evaluate(&self, variables: &Variables<'_>) -> Result<i64, String> {
        FUNCTIONS.with(|functions| {
            let mut context = functions.new_inner_scope();
            context.add_variable_from_value("instance_type", variables.instance_type);
            for (name, value) in [
                ("vcpus", variables.vcpus),
                ("memory_mib", variables.memory_mib),
                ("default_enis", variables.default_enis),
                ("ips_per_eni", variables.ips_per_eni),
                ("max_pods", variables.max_pods),
            ] {
                context.add_variable_from_value(name, Value::Int(value));
            }
            match context.resolve(&self.0) {
                Ok(Value::Int(number)) => Ok(number),
                Ok(Value::Float(number)) => whole(number),
                Ok(other) => Err(format!("the result is {other:?} and must be a number")),
                Err(error) => Err(one_line(&error.to_string())),
            }
        })
    }
}

/// Most characters of an expression.
const LONGEST: usize = 2_000;
/// Most levels of brackets and conditions. The parser recurses for each, which takes up to 170 KiB of the 2 MiB that a
/// thread has as stack when nothing is optimized.
const DEEPEST: usize = 8;

/// Returns whether parsing might need more stack than there is.
fn is_too_deep(text: &str) -> bool {
    let (mut open, mut deepest, mut conditions) = (0_usize, 0, 0);
    for one in text.chars() {
        match one {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => conditions += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    text.len() > LONGEST || deepest + conditions > DEEPEST
}

/// The whole part of a number that has one.
fn whole(number: f64) -> Result<i64, String> {
    // Two to the power of 63, the first number above the largest.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if number.is_finite() && number.abs() < BEYOND {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the fraction is cut off on purpose, and the rest fits"
        )]
        return Ok(number.trunc() as i64);
    }
    Err(format!("the result {number} is no finite number of 64 bits"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the kind of an expression's result. Makes whole numbers fractions where they meet some.
fn kind(expression: &mut IdedExpr) -> Result<Kind, String> {
    match &mut expression.expr {
        Expr::Literal(LiteralValue::Int(_)) => Ok(Kind::Int),
        Expr::Literal(LiteralValue::Double(_)) => Ok(Kind::Double),
        Expr::Literal(LiteralValue::Boolean(_)) => Ok(Kind::Bool),
        Expr::Literal(LiteralValue::String(_)) => Ok(Kind::Text),
        Expr::Ident(name) => {
            let known = VARIABLES.iter().find(|(known, _)| known == name);
            known.map(|(_, kind)| *kind).ok_or_else(|| format!("there is no variable `{name}`"))
        }
        Expr::List(list) => {
            let kinds: Vec<Kind> = list.elements.iter_mut().map(kind).collect::<Result<_, _>>()?;
            match kinds.first() {
                Some(Kind::Int) if kinds.iter().all(|kind| *kind == Kind::Int) => Ok(Kind::Ints),
                Some(Kind::Text) if kinds.iter().all(|kind| *kind == Kind::Text) => Ok(Kind::Texts),
                _ => Err("a list must hold whole numbers alone, or texts alone".to_owned()),
            }
        }
        Expr::Call(call) => of_call(call),
        _ => Err("maps, fields and macros cannot be used".to_owned()),
    }
}

fn of_call(call: &mut CallExpr) -> Result<Kind, String> {
    let mut kinds = Vec::new();
    for part in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
        kinds.push(kind(part)?);
    }
    let function = call.func_name.clone();
    let name = function.as_str();
    let shown = match name {
        operators::CONDITIONAL => "?:",
        other => other.trim_matches(['_', '@']),
    };
    let refuse = || {
        let kinds = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!("`{shown}` cannot be used with {kinds}")
    };
    let numbers = match name {
        operators::CONDITIONAL => {
            kinds.first() == Some(&Kind::Bool) && kinds[1..].iter().copied().all(is_number)
        }
        _ => kinds.iter().copied().all(is_number),
    };
    let (bools, texts) = (all(&kinds, Kind::Bool), all(&kinds, Kind::Text));
    let result = match (name, kinds.len()) {
        (
            operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | "min" | "max",
            2,
        )
        | (operators::CONDITIONAL, 3)
            if numbers =>
        {
            return Ok(widen(call, &kinds));
        }
        (operators::CONDITIONAL, 3) if kinds[0] == Kind::Bool && kinds[1] == kinds[2] => Some(kinds[1]),
        (operators::NEGATE, 1) if numbers => Some(kinds[0]),
        (operators::MODULO, 2) if all(&kinds, Kind::Int) => Some(Kind::Int),
        (name, 2) if numbers && (ORDER.contains(&name) || EQUALITY.contains(&name)) => {
            widen(call, &kinds);
            Some(Kind::Bool)
        }
        (name, 2) if ORDER.contains(&name) => texts.then_some(Kind::Bool),
        (name, 2) if EQUALITY.contains(&name) => (kinds[0] == kinds[1]).then_some(Kind::Bool),
        (operators::LOGICAL_AND | operators::LOGICAL_OR, 2) | (operators::LOGICAL_NOT, 1) => {
            bools.then_some(Kind::Bool)
        }
        (operators::IN, 2) => {
            let fits =
                [[Kind::Int, Kind::Ints], [Kind::Text, Kind::Texts]].iter().any(|pair| pair[..] == kinds);
            fits.then_some(Kind::Bool)
        }
        ("int", 1) => (numbers || texts).then_some(Kind::Int),
        ("double", 1) => (numbers || texts).then_some(Kind::Double),
        ("size", 1) => texts.then_some(Kind::Int),
        ("contains" | "startsWith" | "endsWith" | "matches", 2) if call.target.is_some() => {
            texts.then_some(Kind::Bool)
        }
        ("min" | "max", _) => None,
        _ if name.starts_with(['_', '@', '-', '!']) => None,
        _ => return Err(format!("there is no function `{name}` of {} values", kinds.len())),
    };
    result.ok_or_else(refuse)
}

const fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Int | Kind::Double)
}

fn all(kinds: &[Kind], wanted: Kind) -> bool {
    kinds.iter().all(|kind| *kind == wanted)
}

/// Makes whole numbers among the arguments fractions if there are both.
fn widen(call: &mut CallExpr, kinds: &[Kind]) -> Kind {
    if !kinds.contains(&Kind::Double) {
        return Kind::Int;
    }
    for (argument, _) in call.args.iter_mut().zip(kinds).filter(|(_, kind)| **kind == Kind::Int) {
        let whole = std::mem::take(argument);
        let id = whole.id;
        let call = CallExpr { func_name: "double".to_owned(), target: None, args: vec![whole] };
        *argument = IdedExpr { id, expr: Expr::Call(call) };
    }
    Kind::Double
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int => "int",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Ints => "list(int)",
            Self::Texts => "list(string)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M5_LARGE: Variables<'_> = Variables {
        instance_type: "m5.large",
        vcpus: 2,
        memory_mib: 8192,
        default_enis: 3,
        ips_per_eni: 10,
        max_pods: 29,
    };

    #[test]
    fn numbers_follow_the_type() {
        for (text, expected) in [
            ("min(110, default_enis * (ips_per_eni - 1) + 2)", 29),
            ("11 * max_pods + 255", 574),
            ("memory_mib / 1000", 8),
            ("memory_mib % 1000", 192),
            ("double(memory_mib) / 1000.0", 8),
            ("memory_mib / 1000.0 * 1000", 8192),
            ("vcpus * 2.75", 5),
            ("-vcpus * 2.75", -5),
            ("max(1.5, vcpus)", 2),
            ("min(1.9, vcpus)", 1),
            ("int(2.9) + int(\"3\")", 5),
            ("vcpus > 1.5 ? 10 : 20.5", 10),
            ("vcpus >= 4 && default_enis < 4 || !(ips_per_eni == 10) ? 1 : 2", 2),
            ("instance_type.startsWith(\"m5.\") ? 1 : 2", 1),
            ("instance_type in [\"a\", \"m5.large\"] ? 1 : 2", 1),
            ("instance_type.matches(\"^m[0-9]+\\\\.\") && size(instance_type) == 8 ? 1 : 2", 1),
            ("vcpus in [1, 2] ? 3 : 4", 3),
            ("110", 110),
        ] {
            let program = Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(program.evaluate(&M5_LARGE), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_no_type_could_evaluate_does_not_compile() {
        for (text, part) in [
            ("", "yntax"),
            ("1 +", "yntax"),
            ("pods + 1", "there is no variable `pods`"),
            ("instance_type", "the result is string and must be a number"),
            ("vcpus > 1", "the result is bool and must be a number"),
            ("vcpus + instance_type", "`+` cannot be used with int, string"),
            ("vcpus ? 1 : 2", "`?:` cannot be used with int, int, int"),
            ("true ? 1 : \"a\"", "`?:` cannot be used with bool, int, string"),
            ("5.5 % 2", "`%` cannot be used with double, int"),
            ("min(1)", "`min` cannot be used with int"),
            ("min(1, 2, 3)", "`min` cannot be used with int, int, int"),
            ("ceil(1.5)", "there is no function `ceil` of 1 values"),
            ("vcpus.ceil()", "there is no function `ceil` of 1 values"),
            ("[1, 2].map(x, x)[0]", "maps, fields and macros cannot be used"),
            ("{\"a\": 1}.a", "maps, fields and macros cannot be used"),
            ("instance_type in [1] ? 1 : 2", "`in` cannot be used with string, list(int)"),
            ("1u", "cannot be used"),
        ] {
            let error = Program::compile(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn nothing_overflows_the_stack_of_the_parser() {
        let brackets = |levels| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
        let conditions = |levels| format!("{}1", "vcpus > 1 ? 1 : ".repeat(levels));
        for nested in [brackets(DEEPEST), conditions(DEEPEST)] {
            assert!(Program::compile(&nested).is_ok(), "{nested}");
        }
        for nested in [brackets(DEEPEST + 1), conditions(DEEPEST + 1), "1+".repeat(1_001), brackets(50_000)] {
            let error = Program::compile(&nested).expect_err("is too deep");
            assert_eq!(error, "it has more than 2000 characters, or more than 8 levels");
        }
    }

    #[test]
    fn what_fails_for_one_type_says_why() {
        for (text, part) in [
            ("100 / (vcpus - 2)", "ivision by zero"),
            ("100 % (vcpus - 2)", "emainder by zero"),
            ("100.0 / (vcpus - 2)", "no finite number"),
            ("0.0 / (vcpus - 2)", "no finite number"),
            ("1e300 * vcpus", "no finite number"),
            ("9223372036854775807 + vcpus", "verflow"),
            ("int(instance_type)", "parse error"),
        ] {
            let program = Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let error = program.evaluate(&M5_LARGE).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(
            Program::compile("100 / (vcpus - 2)").unwrap().evaluate(&Variables { vcpus: 4, ..M5_LARGE }),
            Ok(50)
        );
    }
}
