//! Writes the inputs of cases as JSON, so that other schedulers can be measured on the same ones.

use std::fs;
use std::io;
use std::path::Path;

use karpenter_testkit::manifest;

use crate::case::Case;

/// Writes `case` of `table` into a folder of its own below `directory`, unless it has machines: those are not
/// written.
pub(crate) fn write(directory: &Path, table: &str, case: &Case) -> io::Result<()> {
    let snapshot = (case.snapshot)();
    if !snapshot.nodes.is_empty() {
        return Ok(());
    }
    let folder = directory.join(format!("{table}-{}", case.name.replace(' ', "-").to_lowercase()));
    fs::create_dir_all(&folder)?;
    let files = [
        ("pods.json", manifest::pods(&snapshot)),
        ("nodepools.json", manifest::pools(&snapshot)),
        ("daemons.json", manifest::daemons(&snapshot)),
        ("instance-types.json", manifest::instance_types(&snapshot)),
    ];
    for (name, value) in files {
        fs::write(folder.join(name), format!("{value:#}\n"))?;
    }
    Ok(())
}
