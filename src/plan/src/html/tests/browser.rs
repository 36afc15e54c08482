//! The page in a browser without a screen: chromium, driven through two named pipes. Without one the test says `skipped:`,
//! unless `REQUIRE` names `chromium`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{example, hostile};

/// Names browsers have.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// A browser that shows one page.
struct Shown {
    process: Child,
    requests: File,
    answers: BufReader<File>,
    last: u64,
    session: String,
    /// Events that the browser sent without being asked.
    events: Vec<Value>,
}

impl Shown {
    fn new(browser: &Path, folder: &Path, page: &str) -> Self {
        let file = folder.join("plan.html");
        std::fs::write(&file, page).unwrap();
        let (requests, answers) = (folder.join("requests"), folder.join("answers"));
        assert!(Command::new("mkfifo").args([&requests, &answers]).status().unwrap().success());
        let command = "exec \"$0\" \"$@\" 3<requests 4>answers";
        let process = Command::new("sh")
            .args(["-c", command])
            .arg(browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--remote-debugging-pipe",
            ])
            .arg("--disable-dev-shm-usage")
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("about:blank")
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = OpenOptions::new().write(true).open(requests).unwrap();
        let answers = BufReader::new(File::open(answers).unwrap());
        let mut shown =
            Self { process, requests, answers, last: 0, session: String::new(), events: Vec::new() };
        let target = shown.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            shown.ask("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().unwrap().clone_into(&mut shown.session);
        for domain in ["Page", "Network", "Runtime", "Log", "Accessibility"] {
            shown.ask(&format!("{domain}.enable"), &json!({}));
        }
        shown.ask("Page.navigate", &json!({"url": format!("file://{}", file.display())}));
        while !shown.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            shown.next();
        }
        shown
    }

    fn next(&mut self) -> Value {
        let mut message = Vec::new();
        let read = self.answers.read_until(0, &mut message).unwrap();
        assert!(read > 0, "the browser has ended");
        message.pop();
        let message: Value = serde_json::from_slice(&message).unwrap();
        if message.get("id").is_none() {
            self.events.push(message.clone());
        }
        message
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.next();
            if message["id"] == self.last {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.ask("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true}));
        answer["result"]["value"].clone()
    }

    fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if key == "Enter" {
                event["text"] = json!("\r");
            }
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    /// Roles and names as a screen reader gets them.
    fn spoken(&mut self) -> Vec<(String, String)> {
        let tree = self.ask("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let text = |node: &Value, field: &str| node[field]["value"].as_str().unwrap_or_default().to_owned();
        nodes
            .iter()
            .filter(|node| node["ignored"] != true)
            .map(|node| (text(node, "role"), text(node, "name")))
            .collect()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every address that was asked for.
fn asked(shown: &Shown) -> Vec<String> {
    let sent = shown.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
    sent.map(|event| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_browser_shows_the_page_to_keyboards_and_screen_readers() {
    let Some(browser) = browser() else {
        let required = std::env::var("REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name.trim() == "chromium"), "REQUIRE names `chromium`");
        // A line that cannot be written is no reason to fail.
        let _ = writeln!(std::io::stderr(), "\nskipped: plan as a page in a browser: no chromium on PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut shown = Shown::new(&browser, folder.path(), &example().html("demo"));

    let spoken = shown.spoken();
    let says = |role: &str, name: &str| spoken.iter().any(|(of, said)| of == role && said.contains(name));
    for (role, name) in [
        ("banner", ""),
        ("main", ""),
        ("contentinfo", ""),
        ("heading", "Plan for cluster demo"),
        ("heading", "Changes"),
        ("heading", "Pods that would stay pending"),
        ("region", "Now: 2 nodes"),
        ("region", "After: "),
        ("link", "Skip to the changes"),
        ("term", "Cost per hour"),
        ("columnheader", "Instance types"),
    ] {
        assert!(says(role, name), "no {role} `{name}` among {spoken:#?}");
    }
    assert!(
        !spoken.iter().any(|(role, _)| role == "image" || role == "graphics-document"),
        "drawings say nothing"
    );

    // The first stop of the keyboard leads past the head, and everything that unfolds does so by keyboard.
    shown.press("Tab", 9);
    assert_eq!(shown.evaluate("document.activeElement.className"), "skip");
    assert_eq!(
        shown.evaluate("getComputedStyle(document.activeElement).outlineStyle"),
        "solid",
        "focus can be seen"
    );
    let folded = shown.evaluate("document.querySelectorAll('details').length").as_u64().unwrap();
    for _ in 0..100 {
        shown.press("Tab", 9);
        match shown.evaluate("document.activeElement.tagName").as_str() {
            Some("SUMMARY") => shown.press("Enter", 13),
            Some("BODY") => break,
            _ => {}
        }
    }
    assert_eq!(shown.evaluate("document.querySelectorAll('details[open]').length").as_u64(), Some(folded));
    let tables = shown.spoken().iter().filter(|(role, _)| role == "table").count();
    assert!(tables >= 3, "{tables} tables: nodes now, nodes after, pools");

    // In the dark, on a telephone and on paper nothing is wider than the page.
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    shown.ask("Emulation.setEmulatedMedia", &dark);
    assert_eq!(shown.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(17, 22, 29)");
    let narrow = json!({"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": false});
    shown.ask("Emulation.setDeviceMetricsOverride", &narrow);
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(shown.evaluate(overflow), 0, "it does not scroll sideways");

    let requests = asked(&shown);
    assert!(
        requests.iter().all(|url| url.starts_with("file://") && url.ends_with("plan.html")),
        "{requests:?}"
    );
    drop(shown);
    names_do_nothing(&browser);
}

/// Names that try to be markup are read as names.
fn names_do_nothing(browser: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let mut shown = Shown::new(browser, folder.path(), &hostile().html("<b>bold</b>"));
    assert_eq!(shown.evaluate("document.querySelectorAll('script, img, b').length"), 0);
    assert_eq!(shown.evaluate("document.querySelector('h1').textContent"), "Plan for cluster <b>bold</b>");
    let dialogs =
        shown.events.iter().filter(|event| event["method"] == "Page.javascriptDialogOpening").count();
    assert_eq!(dialogs, 0);
    assert_eq!(asked(&shown).len(), 1);
}
