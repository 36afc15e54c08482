//! Changes and their reasons, pods that would stay pending and what would help, and everything that stays as it is.

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;

use super::markup::Markup;
use crate::forecast::{Forecast, Launched, Machine, Removal, Staying, Waiting, Why};
use crate::money::{hourly, known, saved};
use crate::settle::MayDrift;
use crate::text::{alike, by_reason, count, protecting, until};

/// Names that are shown without unfolding.
const SHOWN: usize = 5;

/// Launches, replacements and removals.
pub(super) fn changes(page: &mut Markup, forecast: &Forecast) {
    let Forecast { launches, removals, expired, surplus, deleted, .. } = forecast;
    page.raw("<section aria-labelledby=\"changes\">\n<h2 id=\"changes\" tabindex=\"-1\">Changes</h2>\n");
    if launches.is_empty() && forecast.going_now() == 0 {
        page.raw("<p>No node would be launched, replaced or removed.</p>\n");
    } else {
        page.raw("<ul class=\"cards\">\n");
        for (launch, pods, number) in alike(launches) {
            page.raw("<li class=\"launch\"><span class=\"tag launch\">Launch</span> ");
            launched(page, launch, number);
            if pods.is_empty() {
                page.raw("<p>Why: its pool has fewer nodes than replicas.</p>");
            } else {
                page.element("<p>Why: ", count(pods.len(), "pod"), " without a place</p>");
                names(page, &pods);
            }
            page.raw("</li>\n");
        }
        for removal in removals {
            removed(page, forecast, removal);
        }
        gone(page, expired, "they are older than their expireAfter");
        gone(page, surplus, "their pool has more nodes than replicas");
        gone(page, deleted, "they are deleted with their pool");
        page.raw("</ul>\n");
    }
    for MayDrift { class, claims } in &forecast.may_drift {
        page.element("<p>", count(claims.len(), "node"), " may drift, which cannot be known from here: ");
        page.element("the selectors of node class <code>", class, "</code> change.</p>\n");
        names(page, claims);
    }
    if !forecast.nominated.is_empty() {
        let pods = count(forecast.nominated.len(), "pod");
        page.element("<p>", pods, " would fit on nodes that are there or coming.</p>\n");
        let fits: Vec<String> =
            forecast.nominated.iter().map(|one| format!("{} on {}", one.pod, one.node)).collect();
        names(page, &fits);
    }
    page.raw("</section>\n");
}

fn launched(page: &mut Markup, launch: &Launched, number: usize) {
    page.element("<strong>", number, " × ");
    match &launch.cheapest {
        Some(one) => {
            page.text(&one.instance_type).raw("</strong> in ").text(&one.zone).raw(", ");
            page.text(one.capacity_type.as_str()).raw(", at ").text(hourly(one.price)).raw(" per hour");
            page.raw(if number > 1 { " each" } else { "" });
        }
        None => drop(page.raw("what the provider chooses</strong>")),
    }
    page.element(", of pool <code>", &launch.pool, "</code>");
    if let Some(others) = launch.instance_types.len().checked_sub(1).filter(|others| *others > 0) {
        page.raw("<details><summary>").text(format!("or one of {}", count(others, "other instance type")));
        page.element("</summary><p class=\"name\">", launch.instance_types[1..].join(", "), "</p></details>");
    }
}

fn removed(page: &mut Markup, forecast: &Forecast, removal: &Removal) {
    if removal.replacements.is_empty() {
        page.raw("<li class=\"remove\"><span class=\"tag remove\">Remove</span> ");
    } else {
        page.raw("<li class=\"replace\"><span class=\"tag replace\">Replace</span> ");
    }
    machines(page, &removal.nodes);
    for (launch, _, number) in alike(&removal.replacements) {
        page.raw("<p>By: ");
        launched(page, launch, number);
        page.raw("</p>");
    }
    page.raw("<p>Why: ").text(removal.reason).raw(" (").text(&removal.method).raw("), ");
    page.text(saved(removal.savings));
    if removal.not_before > forecast.at {
        page.element("; begins in ", until(forecast.at, removal.not_before), " if a second look agrees");
    }
    page.raw(".</p>");
    let pods: Vec<String> = removal.nodes.iter().flat_map(|node| node.pods.iter().cloned()).collect();
    if !pods.is_empty() {
        page.element("<p>", count(pods.len(), "pod"), " would move:</p>");
        names(page, &pods);
    }
    page.raw("</li>\n");
}

fn gone(page: &mut Markup, nodes: &[Machine], why: &'static str) {
    if !nodes.is_empty() {
        page.raw("<li class=\"remove\"><span class=\"tag remove\">Remove</span> ");
        machines(page, nodes);
        page.raw("<p>Why: ").raw(why).raw(".</p></li>\n");
    }
}

fn machines(page: &mut Markup, nodes: &[Machine]) {
    page.element("<strong>", count(nodes.len(), "node"), "</strong>");
    let described = |node: &Machine| {
        let known = [
            node.pool.as_ref().map(|pool| format!("pool {pool}")),
            node.instance_type.clone(),
            node.zone.clone(),
            node.capacity_type.clone(),
            Some(format!("{} per hour", known(node.price))),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        format!("{}: {}", node.name, known.join(", "))
    };
    names(page, &nodes.iter().map(described).collect::<Vec<_>>());
}

/// Pods without a place, those that wait for the same as one.
pub(super) fn pending(page: &mut Markup, forecast: &Forecast) {
    if forecast.pending.is_empty() {
        return;
    }
    page.raw("<section aria-labelledby=\"pending\">\n<h2 id=\"pending\">Pods that would stay pending</h2>\n<ul class=\"cards\">\n");
    let mut alike: BTreeMap<(&[Why], &[String]), Vec<&Waiting>> = BTreeMap::new();
    for waiting in &forecast.pending {
        alike.entry((&waiting.reasons, &waiting.help)).or_default().push(waiting);
    }
    for ((reasons, help), pods) in alike {
        page.raw("<li class=\"pending\"><span class=\"tag pending\">Pending</span> ");
        page.element("<strong>", count(pods.len(), "pod"), "</strong>");
        names(page, &pods.iter().map(|waiting| waiting.pod.clone()).collect::<Vec<_>>());
        page.raw("<p>Why:</p><ul>");
        for why in reasons {
            page.raw("<li>");
            if let Some(pool) = &why.pool {
                page.element("pool <code>", pool, "</code>: ");
            }
            page.prose(why.said(false)).element(" <span class=\"soft\">(", why.code, ")</span>");
            if why.conflict.is_some() {
                page.raw("<details><summary>in full</summary>").prose(&why.text).raw("</details>");
            }
            page.raw("</li>");
        }
        page.raw("</ul>");
        if !help.is_empty() {
            page.raw("<p>Would help:</p><ul>");
            for text in help {
                page.raw("<li>").prose(text).raw("</li>");
            }
            page.raw("</ul>");
        }
        page.raw("</li>\n");
    }
    page.raw("</ul>\n</section>\n");
}

/// Nodes with the reason of each, in a section with this id and title.
pub(super) fn nodes(page: &mut Markup, id: &'static str, title: &'static str, all: &[Staying]) {
    if all.is_empty() {
        return;
    }
    page.raw("<section aria-labelledby=\"").raw(id).raw("\">\n<h2 id=\"").raw(id).raw("\">");
    page.raw(title).raw("</h2>\n<ul class=\"cards\">\n");
    for (code, nodes) in by_reason(all) {
        page.element("<li><strong>", count(nodes.len(), "node"), "</strong>: ").text(code.summary());
        page.element(" <span class=\"soft\">(", code, ")</span>");
        names(page, &nodes);
        if code == ReasonCode::PodDisruptionBudget {
            names(page, &protecting(all));
        }
        page.raw("</li>\n");
    }
    page.raw("</ul>\n</section>\n");
}

/// Writes the table of pools.
pub(super) fn pools(page: &mut Markup, forecast: &Forecast) {
    page.raw("<section aria-labelledby=\"pools\">\n<h2 id=\"pools\">Pools</h2>\n");
    if forecast.pools.is_empty() {
        page.raw("<p>There is none.</p>\n</section>\n");
        return;
    }
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of pools\"><table><thead><tr>");
    page.raw("<th scope=\"col\">Pool</th><th scope=\"col\" class=\"number\">Weight</th><th scope=\"col\" class=\"number\">Nodes</th>");
    page.raw("<th scope=\"col\" class=\"number\">Instance types</th><th scope=\"col\">May be disrupted at once</th>");
    page.raw("<th scope=\"col\">Takes no part because</th></tr></thead>\n<tbody>\n");
    for pool in &forecast.pools {
        page.element("<tr><th scope=\"row\" class=\"name\">", &pool.name, "</th>");
        page.element("<td class=\"number\">", pool.weight, "</td>");
        page.element("<td class=\"number\">", pool.nodes, "</td>");
        page.element("<td class=\"number\">", pool.instance_types, "</td>");
        let budgets: Vec<String> = pool
            .budgets
            .iter()
            .map(|(reason, allowed)| {
                let allowed = allowed.map_or_else(|| "any number".to_owned(), |allowed| allowed.to_string());
                format!("{reason}: {allowed}")
            })
            .collect();
        page.element("<td>", budgets.join(", "), "</td>");
        let skipped = pool.skipped.as_ref().map(|why| format!("{} ({})", why.said(false), why.code));
        page.raw("<td>").prose(skipped.unwrap_or_default()).raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n</section>\n");
}

/// Writes the remarks on the plan itself.
pub(super) fn notes(page: &mut Markup, forecast: &Forecast) {
    let unknown = forecast.price.unknown_nodes;
    let unknown = (unknown > 0)
        .then(|| format!("the price of {} is not known and counts as zero", count(unknown, "node")));
    let notes: Vec<&String> = unknown.iter().chain(&forecast.notes).collect();
    if !forecast.findings.is_empty() {
        page.raw("<section aria-labelledby=\"findings\">\n<h2 id=\"findings\">Broken rules</h2>\n");
        page.raw(
            "<p>The controller would not carry out what these are about. Please report them.</p>\n<ul>\n",
        );
        for finding in &forecast.findings {
            page.raw("<li>").prose(finding).raw("</li>\n");
        }
        page.raw("</ul>\n</section>\n");
    }
    if !notes.is_empty() {
        page.raw("<section aria-labelledby=\"notes\">\n<h2 id=\"notes\">Notes</h2>\n<ul>\n");
        for note in notes {
            page.raw("<li>").prose(note).raw("</li>\n");
        }
        page.raw("</ul>\n</section>\n");
    }
}

/// The first few, and the others to unfold.
fn names(page: &mut Markup, names: &[String]) {
    let list = |page: &mut Markup, names: &[String]| {
        page.raw("<ul>");
        for name in names {
            page.element("<li class=\"name\">", name, "</li>");
        }
        page.raw("</ul>");
    };
    let (shown, more) = names.split_at(names.len().min(SHOWN));
    list(page, shown);
    if !more.is_empty() {
        page.element("<details><summary>and ", more.len(), " more</summary>");
        list(page, more);
        page.raw("</details>");
    }
}
