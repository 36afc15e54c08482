//! The page of a small cluster, to the byte; that names in it stay names; and what makes it usable for all readers, as far as
//! its text says it. What only a browser can say is in [`browser`].

mod browser;

use std::collections::BTreeSet;
use std::path::Path;

use karpenter_model::Price;
use karpenter_model::names::label;
use serde_json::{Value, json};

use super::signed;
use crate::money::{dollars, monthly};
use crate::tests::{class, deployment, machine, planned, pool};
use crate::{Forecast, WhatIf};

/// The page in the documentation.
const EXAMPLE: &str = "../../docs/examples/plan.html";
const STYLE: &str = include_str!("style.css");

/// Pods that wait, nodes that have too much room, and pods that no pool takes.
fn example() -> Forecast {
    let mut objects = vec![
        pool("a", &json!({"limits": {"cpu": "40"}})),
        pool("b", &json!({"limits": {"cpu": "1"}, "weight": 10})),
        class(),
        deployment("api", 3, "3500m", &json!({})),
        deployment("web", 2, "600m", &json!({"nodeName": "one"})),
        deployment("jobs", 1, "700m", &json!({"nodeName": "two"})),
        deployment("arm", 2, "1", &json!({"nodeSelector": {label::ARCH: "arm64"}})),
    ];
    for (object, memory) in objects.iter_mut().skip(3).zip(["9Gi", "2Gi", "3Gi", "1Gi"]) {
        object["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] =
            json!(memory);
    }
    for name in ["one", "two"] {
        objects.extend(machine(name));
    }
    planned(objects, WhatIf::default())
}

#[test]
fn the_example_in_the_documentation_is_what_is_printed() {
    let (path, page) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE), example().html("demo"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, page, "UPDATE_GOLDEN=1 rewrites docs/examples/plan.html");
}

/// A cluster whose every name tries to be markup.
fn hostile() -> Forecast {
    let evil = "\"><script>alert(1)</script><img src=x onerror=alert(1)>";
    let mut objects = vec![pool(evil, &json!({})), pool("a", &json!({})), class()];
    objects.push(deployment(evil, 2, "3", &json!({})));
    objects.push(deployment("arm", 1, "3", &json!({"nodeSelector": {evil: evil}})));
    for mut object in machine(evil) {
        object["metadata"]["labels"][label::ZONE] = json!(evil);
        objects.push(object);
    }
    let mut forecast = planned(objects, WhatIf::default());
    forecast.notes.push(evil.to_owned());
    forecast.findings.push(evil.to_owned());
    forecast
}

#[test]
fn names_that_are_markup_stay_names() {
    let page = hostile().html("\"><script>alert(1)</script>");
    assert!(page.contains("&lt;script&gt;"), "the names are shown");
    for wrong in ["<script", "<img", "onerror=alert(1)>"] {
        assert!(!page.contains(wrong), "{wrong} in {page}");
    }
}

#[test]
fn a_page_asks_for_nothing_and_holds_no_script() {
    let page = example().html("demo");
    for wrong in ["http://", "https://", "src=", "@import", "url(", "<script", "javascript:"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn headings_go_down_one_level_at_a_time_and_ids_are_one_of_a_kind() {
    let page = example().html("demo");
    let mut level = 0;
    for (at, _) in page.match_indices("<h") {
        let Some(next) = page[at + 2..].chars().next().and_then(|digit| digit.to_digit(10)) else { continue };
        assert!(next <= level + 1, "h{next} after h{level}");
        level = next;
    }
    let ids: Vec<&str> = values(&page, "id=\"");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    for named in values(&page, "aria-labelledby=\"") {
        assert!(unique.contains(named), "{named} names nothing");
    }
    let drawings = page.matches("<svg").count();
    assert_eq!(
        drawings,
        page.matches("<svg aria-hidden=\"true\"").count(),
        "words beside each say what it shows"
    );
}

fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    page.match_indices(attribute)
        .filter_map(|(at, _)| page[at + attribute.len()..].split('"').next())
        .collect()
}

/// A colour of one palette of the style sheet, 0 the light one, 1 the dark one.
fn colour(name: &str, palette: usize) -> [u32; 3] {
    let key = format!("--{name}: #");
    let (at, _) = STYLE.match_indices(&key).nth(palette).unwrap_or_else(|| panic!("no {name} in {palette}"));
    let hex = &STYLE[at + key.len()..at + key.len() + 6];
    [0, 2, 4].map(|from| u32::from_str_radix(&hex[from..from + 2], 16).unwrap())
}

/// Contrast as WCAG 2.2 defines it.
fn contrast(one: [u32; 3], other: [u32; 3]) -> f64 {
    let channel = |value: u32| {
        let share = f64::from(value) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    let luminance = |[red, green, blue]: [u32; 3]| {
        0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_and_pods_are_told_from_what_is_behind_them_by_light_and_in_the_dark() {
    let texts = [
        ("text", "page"),
        ("text", "card"),
        ("soft", "page"),
        ("soft", "card"),
        ("accent", "card"),
        ("accent", "page"),
        ("good", "card"),
        ("bad", "card"),
        ("warn", "card"),
        ("good", "good-tint"),
        ("bad", "bad-tint"),
        ("warn", "warn-tint"),
    ];
    for palette in [0, 1] {
        for (front, back) in texts {
            let found = contrast(colour(front, palette), colour(back, palette));
            assert!(found >= 4.5, "{front} on {back} in palette {palette}: {found:.2}");
        }
        for pod in ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"] {
            let found = contrast(colour(pod, palette), colour("free", palette));
            assert!(found >= 3.0, "{pod} beside free in palette {palette}: {found:.2}");
        }
    }
}

#[test]
fn a_thousand_nodes_are_a_few_boxes() {
    let mut objects = vec![pool("a", &json!({})), class()];
    for number in 0..1000 {
        let name = format!("n{number}");
        objects.extend(machine(&name));
        let cpu = format!("{}m", 100 + number);
        let mut pod = deployment(&format!("app-{number}"), 1, &cpu, &json!({"nodeName": name}));
        pod["metadata"]["labels"] = json!({});
        objects.push(pod);
    }
    let page = planned(objects, WhatIf::default()).html("");
    assert!(page.matches("<li class=\"node").count() < 20, "{}", page.matches("<li class=\"node").count());
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn a_month_has_730_hours_and_less_cost_a_minus_that_is_heard() {
    let price = |nanos| Price::from_nanos(nanos);
    assert_eq!(monthly(price(1_000_000_000)), "$730");
    assert_eq!(signed(price(-1_500_000_000), |price| dollars(price, 2)), "−$1.50");
}

/// Every text between tags, for tests that read as people do.
fn told(page: &str) -> String {
    let mut told = String::new();
    let mut within = true;
    for one in page.split("</style>").last().unwrap_or_default().chars() {
        match one {
            '<' => within = false,
            '>' => within = true,
            one if within => told.push(one),
            _ => {}
        }
    }
    told
}

#[test]
fn the_page_says_what_the_text_says() {
    let forecast = example();
    let told = told(&forecast.html("demo"));
    let pods = forecast.pending.iter().map(|waiting| &waiting.pod);
    let helps = forecast.pending.iter().flat_map(|waiting| &waiting.help);
    let gone = forecast.removals.iter().flat_map(|removal| &removal.nodes).map(|node| &node.name);
    let saved: Vec<String> =
        forecast.removals.iter().map(|removal| crate::money::saved(removal.savings)).collect();
    let as_text = forecast.text();
    assert!(!saved.is_empty() && saved.iter().all(|saved| as_text.contains(saved)), "{saved:?} in {as_text}");
    for text in pods.chain(helps).chain(gone).chain(&saved).chain(&forecast.notes) {
        let text = text.replace('\'', "&#39;").replace('`', "");
        assert!(told.contains(&text), "{text} in {told}");
    }
    let _: Value = serde_json::to_value(&forecast).unwrap();
}
