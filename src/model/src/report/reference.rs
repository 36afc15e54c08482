//! The page that lists every reason, checked against the code.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::ReasonCode;

const INTRODUCTION: &str = "\
# Reasons

Every pod that has no place, every pool that does not take part and every node that stays has a reason. Reasons appear
in events and logs, as metric labels and in what `karpenter explain` prints, always by these names; what follows a colon
is about the object at hand.

| reason | meaning |
|---|---|
";

fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for code in ReasonCode::ALL {
        let _ = writeln!(page, "| `{code}` | {} |", code.summary());
    }
    page
}

#[test]
fn the_page_lists_every_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page(), "UPDATE_GOLDEN=1 rewrites docs/reasons.md");
}
