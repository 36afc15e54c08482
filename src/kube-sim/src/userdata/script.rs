//! Bootstrap scripts: `/etc/eks/bootstrap.sh` of AL2 and the PowerShell call of Windows.

use super::{Bootstrap, Image, flags};

/// Reads the script's bootstrap call; `None` when it makes none.
pub(super) fn parse(script: &str) -> Option<Bootstrap> {
    let joined = script.replace("\\\n", " ").replace("`\n", " ");
    joined.lines().rev().find_map(|line| linux(line).or_else(|| windows(line)))
}

fn linux(line: &str) -> Option<Bootstrap> {
    let words = flags::words(line.trim());
    let call = words.iter().position(|word| word == "/etc/eks/bootstrap.sh")?;
    let words = &words[call + 1..];
    let mut bootstrap =
        Bootstrap { image: Image::Script, cluster_name: cluster_name(words)?, ..Bootstrap::default() };
    for (name, value) in flags::options(words) {
        match name {
            "dns-cluster-ip" => bootstrap.cluster_dns = vec![value.to_owned()],
            "local-disks" => bootstrap.local_disks = value == "raid0",
            _ => {}
        }
    }
    take_kubelet_arguments(words, "--kubelet-extra-args", &mut bootstrap);
    Some(bootstrap)
}

/// The first word that is neither an option nor the value of one.
fn cluster_name(words: &[String]) -> Option<String> {
    let mut previous_is_option = false;
    for word in words {
        let is_option = word.starts_with("--");
        if !is_option && !previous_is_option {
            return Some(word.clone());
        }
        previous_is_option = is_option && !word.contains('=');
    }
    None
}

fn windows(line: &str) -> Option<Bootstrap> {
    let words = flags::words(line.trim());
    let name = words.iter().position(|word| word == "-EKSClusterName")?;
    let cluster_name = words.get(name + 1)?.clone();
    let mut bootstrap = Bootstrap { image: Image::Windows, cluster_name, ..Bootstrap::default() };
    take_kubelet_arguments(&words, "-KubeletExtraArgs", &mut bootstrap);
    Some(bootstrap)
}

fn take_kubelet_arguments(words: &[String], option: &str, bootstrap: &mut Bootstrap) {
    let at = words.iter().position(|word| word == option);
    if let Some(arguments) = at.and_then(|at| words.get(at + 1)) {
        flags::apply(&flags::words(arguments), bootstrap);
    }
}
