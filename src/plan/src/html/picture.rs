//! The picture: nodes now and after the changes, side by side, and the same as a table.

use std::collections::BTreeMap;

use super::blocks::{Block, Part, blocks, colours};
use super::markup::Markup;
use crate::money::known;
use crate::picture::{Drawn, Fate, Picture};
use crate::text::{count, named};

/// Parts of a whole in which positions are drawn.
const WHOLE: i64 = 1000;
/// Gap between two pods.
const GAP: i64 = 4;

type Colours<'a> = BTreeMap<&'a str, &'static str>;

/// Draws it.
pub(super) fn picture(page: &mut Markup, picture: &Picture) {
    if picture.now.is_empty() && picture.after.is_empty() {
        return;
    }
    let ranked = colours(picture.now.iter().chain(&picture.after));
    let colours: Colours<'_> = ranked.iter().copied().collect();
    page.raw("<h2 id=\"nodes\">Nodes and what fills them</h2>\n<p class=\"soft\">Each box is a node, or nodes that are alike; ");
    page.raw(
        "its bars are what pods request of it. Names and amounts are in the tables below as well.</p>\n",
    );
    legend(page, &ranked);
    page.raw("<div class=\"picture\">\n");
    side(page, "<section aria-labelledby=\"now\"><h3 id=\"now\">Now: ", &picture.now, &colours);
    side(page, "<section aria-labelledby=\"after\"><h3 id=\"after\">After: ", &picture.after, &colours);
    page.raw("</div>\n<details>\n<summary>The same as tables</summary>\n");
    table(page, "<caption>Nodes now</caption>", &picture.now);
    table(page, "<caption>Nodes after</caption>", &picture.after);
    page.raw("</details>\n");
}

fn legend(page: &mut Markup, ranked: &[(&str, &'static str)]) {
    let swatch = |page: &mut Markup, class: &'static str| {
        page.raw("<li><svg aria-hidden=\"true\" viewBox=\"0 0 1 1\"><rect width=\"1\" height=\"1\" class=\"");
        page.raw(class).raw("\"/></svg>");
    };
    page.raw("<ul class=\"legend\" aria-label=\"Colours of the pods\">\n");
    for (workload, class) in ranked {
        swatch(page, class);
        page.element("<span class=\"name\">", workload, "</span></li>\n");
    }
    swatch(page, "other");
    page.raw("other pods</li>\n");
    swatch(page, "daemon");
    page.raw("daemon sets</li>\n");
    swatch(page, "free");
    page.raw("free</li>\n</ul>\n");
}

fn side(page: &mut Markup, title: &'static str, nodes: &[Drawn], colours: &Colours<'_>) {
    page.element(title, count(nodes.len(), "node"), "</h3>\n<ul class=\"nodes\">\n");
    for block in blocks(nodes) {
        draw(page, &block, colours);
    }
    page.raw("</ul>\n</section>\n");
}

fn draw(page: &mut Markup, block: &Block<'_>, colours: &Colours<'_>) {
    page.raw("<li class=\"node ").raw(class(block.first.fate)).raw("\">\n<div class=\"head\"><span>");
    if block.nodes > 1 {
        page.text(block.nodes).raw(" × ");
    }
    page.text(type_of(block)).raw("</span><span>").text(price_of(block)).raw("</span></div>\n");
    page.element("<div class=\"sub\">", place_of(block), "</div>\n");
    if let Some(name) = block.names.first() {
        page.element("<div class=\"sub name\">", name, "");
        if block.names.len() > 1 {
            page.text(format!(" and {} more", block.names.len() - 1));
        }
        page.raw("</div>\n");
    }
    if let Some(said) = fate(block.first.fate) {
        page.raw("<div class=\"sub\"><strong>").raw(said).raw("</strong></div>\n");
    }
    let (room, taken) = (block.room, block.taken);
    bar(page, "<div class=\"bar\"><span>cpu</span>", block, colours, room.cpu, |part| part.takes.cpu);
    page.element(
        "<span class=\"share\">",
        format!("{} of {}", cores(taken.cpu), cores(room.cpu)),
        "</span></div>\n",
    );
    bar(page, "<div class=\"bar\"><span>memory</span>", block, colours, room.memory, |part| {
        part.takes.memory
    });
    page.element(
        "<span class=\"share\">",
        format!("{} of {}, {}", gibibytes(taken.memory), gibibytes(room.memory), count(block.pods, "pod")),
        "</span></div>\n</li>\n",
    );
}

fn bar(
    page: &mut Markup,
    open: &'static str,
    block: &Block<'_>,
    colours: &Colours<'_>,
    room: i64,
    of: impl Fn(&Part<'_>) -> i64,
) {
    page.raw(open);
    page.raw("<svg aria-hidden=\"true\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">");
    page.raw("<rect class=\"free\" width=\"1000\" height=\"10\"/>");
    let place = |amount: i64| {
        let place = i128::from(amount) * i128::from(WHOLE) / i128::from(room.max(1));
        i64::try_from(place).unwrap_or(WHOLE).clamp(0, WHOLE)
    };
    let mut filled = 0_i64;
    for part in &block.parts {
        let (from, until) = (place(filled), place(filled.saturating_add(of(part))));
        filled = filled.saturating_add(of(part));
        let width = until - from;
        if width == 0 {
            continue;
        }
        let width = if width > 3 * GAP { width - GAP } else { width };
        let class =
            if part.daemon { "daemon" } else { colours.get(part.workload).copied().unwrap_or("other") };
        page.raw("<rect class=\"").raw(class).raw("\" x=\"").text(from).raw("\" width=\"").text(width);
        page.raw("\" height=\"10\"><title>").text(part.workload);
        if part.pods > 1 {
            page.text(format!(" × {}", part.pods));
        }
        page.raw("</title></rect>");
    }
    page.raw("</svg>");
}

fn table(page: &mut Markup, caption: &'static str, nodes: &[Drawn]) {
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of nodes\"><table>");
    page.raw(caption);
    page.raw("<thead><tr><th scope=\"col\">Nodes</th><th scope=\"col\">Instance type</th><th scope=\"col\">Pool, zone</th>");
    page.raw("<th scope=\"col\">State</th><th scope=\"col\" class=\"number\">Price per hour</th>");
    page.raw("<th scope=\"col\" class=\"number\">CPU requested</th><th scope=\"col\" class=\"number\">Memory requested</th>");
    page.raw("<th scope=\"col\">Pods</th></tr></thead>\n<tbody>\n");
    for block in blocks(nodes) {
        let names: Vec<String> = block.names.iter().map(|name| (*name).to_owned()).collect();
        let new = || count(block.nodes, "coming node");
        let who = if names.is_empty() { new() } else { named(&names) };
        page.element("<tr><th scope=\"row\" class=\"name\">", who, "</th>");
        page.element("<td>", type_of(&block), "</td>").element("<td>", place_of(&block), "</td>");
        page.element("<td>", fate(block.first.fate).unwrap_or("stays"), "</td>");
        page.element("<td class=\"number\">", price_of(&block), "</td>");
        page.element(
            "<td class=\"number\">",
            format!("{} of {}", cores(block.taken.cpu), cores(block.room.cpu)),
            "</td>",
        );
        let memory = format!("{} of {}", gibibytes(block.taken.memory), gibibytes(block.room.memory));
        page.element("<td class=\"number\">", memory, "</td>");
        let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
        for part in &block.parts {
            *pods.entry(part.workload).or_default() += part.pods;
        }
        let pods: Vec<String> = pods.iter().map(|(name, number)| format!("{number} × {name}")).collect();
        page.element("<td>", named(&pods), "</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}

fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::New => "new",
        Fate::Replacement => "replacement",
        Fate::Goes | Fate::Leaving => "goes",
        Fate::Fills => "fills",
        Fate::Stays => "stays",
    }
}

fn fate(fate: Fate) -> Option<&'static str> {
    match fate {
        Fate::New => Some("launched"),
        Fate::Replacement => Some("replacement"),
        Fate::Goes => Some("removed"),
        Fate::Leaving => Some("leaving already"),
        Fate::Fills => Some("takes more pods"),
        Fate::Stays => None,
    }
}

fn type_of(block: &Block<'_>) -> String {
    let one = &block.first.instance_type;
    if one.is_empty() { "type not known".to_owned() } else { one.clone() }
}

fn price_of(block: &Block<'_>) -> String {
    if block.nodes > 1 {
        return format!("{} in all", known(block.price));
    }
    known(block.price)
}

fn place_of(block: &Block<'_>) -> String {
    let zones: Vec<&str> = block.zones.iter().copied().collect();
    let parts = [block.first.pool.as_str(), &zones.join(", "), block.first.capacity_type.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// Cores with as many decimals as they have, three at most.
fn cores(millis: i64) -> String {
    let (whole, rest) = (millis / 1000, (millis % 1000).unsigned_abs());
    let decimals = format!("{rest:03}");
    let decimals = decimals.trim_end_matches('0');
    let what = if millis == 1000 { "core" } else { "cores" };
    if decimals.is_empty() { format!("{whole} {what}") } else { format!("{whole}.{decimals} {what}") }
}

fn gibibytes(bytes: i64) -> String {
    let tenths = (i128::from(bytes) * 10 + (1 << 29)) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
