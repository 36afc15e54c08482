//! A forecast as one page that needs nothing else: no network, no script, no file beside it.
//!
//! Everything shown in colours is written in words as well, and the picture has a table beside it. Names from the cluster are
//! text to the compiler ([`markup`]); the page forbids scripts and requests besides. Nodes that are alike are one box; when
//! there would be too many boxes all the same, nodes of one pool and type are.

mod blocks;
mod changes;
mod markup;
mod picture;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use karpenter_model::Price;

use crate::forecast::{Forecast, Verdict};
use crate::money::{self, dollars, monthly};
use crate::text::{count, headline, second};
use markup::Markup;

impl Forecast {
    /// The forecast as an HTML page; `cluster` is its name, if it has one.
    pub fn html(&self, cluster: &str) -> String {
        let mut page = Markup::default();
        let title =
            if cluster.is_empty() { "Plan".to_owned() } else { format!("Plan for cluster {cluster}") };
        page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.raw("<meta name=\"referrer\" content=\"no-referrer\">\n");
        page.element("<title>", format!("{title}: {}", headline(self)), "</title>\n");
        page.raw("<style>\n").raw(include_str!("html/style.css")).raw("</style>\n</head>\n<body>\n");
        page.raw("<a class=\"skip\" href=\"#changes\">Skip to the changes</a>\n<header>\n");
        page.element("<h1>", &title, "</h1>\n");
        page.raw("<p class=\"verdict ")
            .raw(class(self.verdict))
            .raw("\">")
            .text(headline(self))
            .raw("</p>\n");
        page.element(
            "<p class=\"soft\">What karpenter would do at <time>",
            second(self.at),
            "</time>. Nothing was changed.</p>\n",
        );
        if let Some(because) = &self.because {
            page.element("<p>Assumed: ", because.assumed.join("; "), "</p>\n");
            page.element("<p>That makes ", because.effects(), ".</p>\n");
        }
        self.facts(&mut page);
        page.raw("</header>\n<main>\n");
        changes::changes(&mut page, self);
        changes::pending(&mut page, self);
        picture::picture(&mut page, &self.picture);
        changes::nodes(&mut page, "later", "Nodes that have drifted and are replaced later", &self.later);
        changes::nodes(&mut page, "staying", "Nodes that stay, and why", &self.staying);
        changes::pools(&mut page, self);
        changes::notes(&mut page, self);
        page.raw("</main>\n<footer>\n<p>Prices are dollars per hour; a month is 730 hours. ");
        page.raw("Each launch counts at its cheapest offering. ");
        page.raw("Nodes that are leaving already cost now and not after. ");
        page.raw("Made by <code>karpenter plan --output html</code>.</p>\n</footer>\n</body>\n</html>\n");
        page.finish()
    }

    fn facts(&self, page: &mut Markup) {
        let Forecast { price, picture, .. } = self;
        let change = price.after.saturating_sub(price.now);
        page.raw("<dl class=\"facts\">\n<div><dt>Cost per hour</dt><dd>")
            .text(money::known_as(price.known_now(), cents));
        page.raw(" <span aria-hidden=\"true\">→</span><span class=\"heard\"> then </span> ")
            .text(money::known_as(price.known_after(), cents));
        page.raw("</dd><dd class=\"more ")
            .raw(direction(change))
            .raw("\">")
            .text(said(change, price.now))
            .raw("</dd></div>\n");
        page.raw("<div><dt>Cost per month</dt><dd>").text(money::known_as(price.known_now(), monthly));
        page.raw(" <span aria-hidden=\"true\">→</span><span class=\"heard\"> then </span> ")
            .text(money::known_as(price.known_after(), monthly));
        page.raw("</dd><dd class=\"more ")
            .raw(direction(change))
            .raw("\">")
            .text(signed(change, monthly))
            .raw("</dd></div>\n");
        page.raw("<div><dt>Nodes</dt><dd>").text(picture.now.len());
        page.raw(" <span aria-hidden=\"true\">→</span><span class=\"heard\"> then </span> ")
            .text(picture.after.len());
        page.raw("</dd><dd class=\"more\">").text(self.nodes_said()).raw("</dd></div>\n");
        page.raw("<div><dt>Pods that would stay pending</dt><dd");
        page.raw(if self.pending.is_empty() { ">" } else { " class=\"up\">" });
        page.text(self.pending.len()).raw("</dd><dd class=\"more\">");
        page.text(format!("{} would get a place", count(self.placed(), "pod"))).raw("</dd></div>\n</dl>\n");
    }

    fn nodes_said(&self) -> String {
        let replaced: usize = self.removals.iter().map(|removal| removal.replacements.len()).sum();
        let going = self.going_now();
        let launched = self.launches.len() + replaced;
        format!("{launched} launched, of which {replaced} replace others; {going} removed")
    }

    /// Number of the nodes that would go at once.
    fn going_now(&self) -> usize {
        let removed: usize = self.removals.iter().map(|removal| removal.nodes.len()).sum();
        removed + self.expired.len() + self.surplus.len() + self.deleted.len()
    }

    fn placed(&self) -> usize {
        self.nominated.len() + self.launches.iter().map(|launch| launch.pods.len()).sum::<usize>()
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unchanged => "unchanged",
        Verdict::Unknown => "unknown",
        Verdict::Changes => "changes",
        Verdict::PodsWait => "pods-wait",
    }
}

/// Dollars as on the page.
fn cents(price: Price) -> String {
    dollars(price, 2)
}

/// More cost is what a reader should notice first.
fn direction(change: Price) -> &'static str {
    match change.cmp(&Price::ZERO) {
        Ordering::Greater => "up",
        Ordering::Less => "down",
        Ordering::Equal => "same",
    }
}

/// The change in words, with its share.
fn said(change: Price, of: Price) -> String {
    if change == Price::ZERO {
        return "no change".to_owned();
    }
    let share = i128::from(change.nanos()) * 100;
    let share = share.checked_div(i128::from(of.nanos())).map(|percent| format!(" ({percent:+} %)"));
    format!("{}{}", signed(change, money::hourly), share.unwrap_or_default())
}

/// The change with its sign, as screen readers say it.
fn signed(change: Price, write: impl Fn(Price) -> String) -> String {
    money::change(change, write).replacen('-', "−", 1)
}
