//! Writes the inputs of a bench as JSON, so that other schedulers can be measured on the same ones.

use std::fs;
use std::io;
use std::path::Path;

use karpenter_model::Snapshot;
use karpenter_testkit::manifest;

/// Writes `snapshot` into the folder `name` below `directory`, unless it has machines: those are not written.
pub(crate) fn write(directory: &Path, name: &str, snapshot: &Snapshot) -> io::Result<()> {
    if !snapshot.nodes.is_empty() {
        return Ok(());
    }
    let folder = directory.join(name);
    fs::create_dir_all(&folder)?;
    let files = [
        ("pods.json", manifest::pods(snapshot)),
        ("nodepools.json", manifest::pools(snapshot)),
        ("daemons.json", manifest::daemons(snapshot)),
        ("instance-types.json", manifest::instance_types(snapshot)),
    ];
    for (name, value) in files {
        fs::write(folder.join(name), format!("{value:#}\n"))?;
    }
    Ok(())
}
