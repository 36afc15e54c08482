//! Windows: a PowerShell block that calls the EKS bootstrap script (spec aws-provider 6.10).

use super::{Bootstrap, Error, al2023, cloud_init, kubelet, mime};

const OPEN: &str = "<powershell>";
const CLOSE: &str = "</powershell>";
const JINJA: &str = "## template: jinja";
/// Tags that EC2's agents read beside the commands, in lower case; inside of them they would be a syntax error.
const TAGS: [&str; 4] = ["persist", "powershellarguments", "runaslocalsystem", "detach"];

/// Renders the block; the `NodeClass`'s own commands run first.
///
/// # Errors
/// [`Error::Unread`] when custom user data is for another kind of image, or has blocks that cannot be joined with ours.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut call = format!(
        "& $EKSBootstrapScriptFile -EKSClusterName '{}' -APIServerEndpoint '{}'",
        bootstrap.cluster_name, bootstrap.cluster_endpoint
    );
    if let Some(ca) = &bootstrap.ca_bundle {
        call.push_str(&format!(" -Base64ClusterCA '{ca}'"));
    }
    let args = kubelet::extra_args(bootstrap);
    if !args.is_empty() {
        call.push_str(&format!(" -KubeletExtraArgs '{args}'"));
    }
    if let Some(ip) = bootstrap.kubelet.cluster_dns.as_ref().and_then(|servers| servers.first()) {
        call.push_str(&format!(" -DNSClusterIP '{ip}'"));
    }
    let (commands, others) = custom(bootstrap.custom.as_deref().unwrap_or_default())?;
    Ok(format!(
        "{OPEN}\n{commands}[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n{call}\n{CLOSE}{others}"
    ))
}

/// The commands of the user, and what else EC2's agent reads: tags such as `<persist>`, which stand outside the block.
fn custom(text: &str) -> Result<(String, String), Error> {
    let unread = |why: &str| Err(Error::Unread(why.to_owned()));
    let first = text.trim_start_matches('\u{feff}').trim_start();
    // `#` begins a comment in PowerShell, too: only what is nothing but a first line of cloud-init is one.
    let line = first.lines().next().unwrap_or_default().trim_end();
    let of_linux = line.starts_with("#!/")
        || cloud_init::first_line(line).is_some() && (!line.contains(' ') || line == JINJA);
    // PowerShell has a first line of its own, `#!/usr/bin/env pwsh`.
    if of_linux && !line.contains("pwsh") || mime::is_mime(first) {
        return unread("it is for cloud-init, which Windows does not have; write PowerShell commands");
    }
    if let Some(what) = of_others(first) {
        return unread(&format!("it is {what}; write PowerShell commands"));
    }
    // EC2's agents find their tags in any case; lowering ASCII keeps all positions.
    let lower = text.to_ascii_lowercase();
    if lower.contains("<script>") {
        return unread("`<script>` and `<powershell>` blocks exclude each other; write PowerShell commands");
    }
    if first.starts_with("version:") && lower.contains("tasks:") {
        return unread(
            "tasks of EC2Launch cannot be joined with the commands of the node; write PowerShell commands",
        );
    }
    let commands = |text: &str| if text.is_empty() { String::new() } else { format!("{text}\n") };
    let (Some(open), Some(close)) = (lower.find(OPEN), lower.find(CLOSE)) else {
        if lower.contains(OPEN) || lower.contains(CLOSE) {
            return unread("a `<powershell>` block is not closed, or not opened");
        }
        let (text, others) = without_tags(text);
        return Ok((commands(&text), others));
    };
    let (Some(before), Some(inside), Some(after)) =
        (text.get(..open), text.get(open + OPEN.len()..close), text.get(close + CLOSE.len()..))
    else {
        return unread("a `<powershell>` block is closed before it is opened");
    };
    if lower.matches(OPEN).count() + lower.matches(CLOSE).count() > 2 {
        return unread("it has several `<powershell>` blocks; write one");
    }
    let others: String = [before, after]
        .map(str::trim)
        .iter()
        .filter(|other| !other.is_empty())
        .map(|other| format!("\n{other}"))
        .collect();
    Ok((commands(inside.trim_matches(['\r', '\n'])), others))
}

/// Returns the format of a text that PowerShell would fail to run.
fn of_others(text: &str) -> Option<&'static str> {
    if al2023::is_node_config(text) {
        return Some("a NodeConfig, and Windows has no nodeadm");
    }
    if cloud_init::is_settings(text) {
        return Some("settings of Bottlerocket");
    }
    cloud_init::is_encoded(text).then_some("base64 already")
}

/// Separates commands that stand in no block from the tags of the agents.
fn without_tags(text: &str) -> (String, String) {
    let (mut commands, mut others) = (text.to_owned(), String::new());
    for tag in TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let lower = commands.to_ascii_lowercase();
        let Some((start, end)) = lower.find(&open).zip(lower.find(&close)) else { continue };
        let end = end + close.len();
        if let Some(found) = commands.get(start..end).map(str::to_owned) {
            others.push('\n');
            others.push_str(&found);
            commands.replace_range(start..end, "");
        }
    }
    if others.is_empty() { (commands, others) } else { (commands.trim().to_owned(), others) }
}
