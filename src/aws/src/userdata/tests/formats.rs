//! Every documented format of user data, by family: sent as what it is, or refused; read here by a reader of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// Type and content of each part of an archive, as RFC 2045 and RFC 2046 have it.
fn read(archive: &str) -> Vec<(String, Vec<u8>)> {
    let (head, body) = archive.split_once("\n\n").expect("headers end");
    let boundary =
        head.split("boundary=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a boundary");
    let body = format!("\n{body}");
    let (body, _end) = body.split_once(&format!("\n--{boundary}--")).expect("the end");
    let delimiter = format!("\n--{boundary}\n");
    let parts = body.split(&delimiter).skip(1);
    let part = |part: &str| {
        let (head, body) = part.split_once("\n\n").expect("headers of a part end");
        let header = |wanted: &str| {
            let mut named = head.lines().filter_map(|line| line.split_once(": "));
            named.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned())
        };
        let kind = header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().to_owned();
        match header("content-transfer-encoding") {
            Some(encoding) if encoding == "base64" => (kind, STANDARD.decode(body.trim()).expect("base64")),
            Some(encoding) => panic!("{encoding}"),
            None => (kind, body.as_bytes().to_vec()),
        }
    };
    parts.map(part).collect()
}

fn rendered(family: AmiFamily, custom: &str) -> Result<String, Error> {
    render(family, &Bootstrap { custom: Some(custom.to_owned()), ..bootstrap() })
}

/// All parts but ours, which is the last.
fn theirs(family: AmiFamily, custom: &str) -> Vec<(String, String)> {
    let archive = rendered(family, custom).unwrap_or_else(|error| panic!("{family:?} {custom:?}: {error}"));
    let mut parts = read(&archive);
    let (ours, _) = parts.pop().expect("our part");
    let expected = if family == AmiFamily::AL2 { "text/x-shellscript" } else { "application/node.eks.aws" };
    assert_eq!(ours, expected);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_else(|_| "no text".to_owned());
    parts.into_iter().map(|(kind, body)| (kind, text(body))).collect()
}

fn archive(parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("--=B=\n{part}\n")).collect();
    format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"=B=\"\n\n{parts}--=B=--\n")
}

const LINUX: [AmiFamily; 2] = [AmiFamily::AL2, AmiFamily::AL2023];

/// cloud-init chooses by the type of a part, which the first line shows.
#[test]
fn a_text_is_sent_as_what_its_first_line_says() {
    for (custom, kind) in [
        ("#cloud-config\nruncmd: [[sysctl, -w, vm.max_map_count=262144]]\n", "text/cloud-config"),
        ("\n\n#Cloud-Config\r\nruncmd: []\n", "text/cloud-config"),
        ("\u{feff}#cloud-config\nruncmd: []\n", "text/cloud-config"),
        (
            "#cloud-config-archive\n- {type: text/cloud-config, content: 'runcmd: []'}\n",
            "text/cloud-config-archive",
        ),
        ("#cloud-config-jsonp\n[]\n", "text/cloud-config-jsonp"),
        ("#cloud-boothook\n#!/bin/sh\necho early\n", "text/cloud-boothook"),
        ("#include\nhttps://example.com/one\n", "text/x-include-url"),
        ("#include-once\nhttps://example.com/one\n", "text/x-include-once-url"),
        ("#part-handler\ndef list_types(): return []\n", "text/part-handler"),
        ("## template: jinja\n#cloud-config\nhostname: '{{ v1.instance_id }}'\n", "text/jinja2"),
        ("#!/bin/bash\necho one\n", "text/x-shellscript"),
        ("#!/usr/bin/env python3\nprint(1)\n", "text/x-shellscript"),
        ("echo one\n", "text/x-shellscript"),
    ] {
        let clean = custom.trim_start_matches('\u{feff}').replace('\r', "");
        for family in LINUX {
            assert_eq!(theirs(family, custom), [(kind.to_owned(), clean.clone())], "{family:?} {custom:?}");
        }
    }
    let shell = ("text/x-shellscript".to_owned(), "#!/bin/sh\necho one\n".to_owned());
    assert_eq!(
        theirs(AmiFamily::AL2023, "\n  #!/bin/sh\necho one\n"),
        [shell],
        "a kernel looks at two bytes"
    );
}

#[test]
fn parts_of_an_archive_arrive_whatever_they_are_encoded_in() {
    let zipped = "H4sIAAAAAAAAA1NOzskvTdFNzs9Ly0znKirNSy7O5+ICAF8Q5aMXAAAA";
    let encoded = STANDARD.encode("#!/bin/sh\necho \u{e9}\n");
    let script = "#!/bin/sh\necho \u{e9}\n";
    for (part, kind, body) in [
        (format!("Content-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\n{encoded}"), "text/x-shellscript", script),
        (format!("Content-Type: text/x-shellscript\nContent-Transfer-Encoding: Base64\n\n{}\n{}", &encoded[..8], &encoded[8..]), "text/x-shellscript", script),
        ("Content-Transfer-Encoding: quoted-printable\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho =C3=A9\n".into(), "text/x-shellscript", script),
        (format!("Content-Type: text/x-shellscript\nContent-Transfer-Encoding: 8bit\n\n{script}"), "text/x-shellscript", script),
        (format!("Content-Type: application/x-gzip\nContent-Transfer-Encoding: base64\n\n{zipped}"), "application/x-gzip", "no text"),
        ("Content-Type: text/cloud-config\nContent-Disposition: attachment; filename=\"a\"\n\n#cloud-config\n".into(), "text/cloud-config", "#cloud-config\n"),
        ("Content-Type: text/plain\n\n#cloud-config\nruncmd: []".into(), "text/plain", "#cloud-config\nruncmd: []"),
        ("Content-Type: text/x-shellscript-per-boot\n\n#!/bin/sh".into(), "text/x-shellscript-per-boot", "#!/bin/sh"),
        ("Content-Type: application/x-for-a-part-handler\n\nanything".into(), "application/x-for-a-part-handler", "anything"),
    ] {
        for family in LINUX {
            let told = theirs(family, &archive(&[&part, &part]));
            assert_eq!(told, vec![(kind.to_owned(), body.to_owned()); 2], "{family:?} {part}");
        }
    }
    let merging = archive(&[
        "Content-Type: text/cloud-config\nMerge-Type: list(append)\nX-Other: 1\n\n#cloud-config\n",
    ]);
    let text = rendered(AmiFamily::AL2023, &merging).unwrap();
    assert!(text.contains("\nMerge-Type: list(append)\n") && !text.contains("X-Other"), "{text}");
    let blank = archive(&["Content-Type: text/x-shellscript\n\n\n#!/bin/sh\necho one"]);
    let script = ("text/x-shellscript".to_owned(), "#!/bin/sh\necho one".to_owned());
    assert_eq!(theirs(AmiFamily::AL2, &blank), [script], "an empty line too many");
    let without_type = archive(&["\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"]);
    assert_eq!(theirs(AmiFamily::AL2023, &without_type)[0].0, "application/node.eks.aws");
}

/// nodeadm reads the first document of a part, and merges parts.
#[test]
fn each_document_of_a_node_config_reaches_nodeadm() {
    let one = |name: &str| {
        format!("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nmetadata: {{name: {name}}}\n")
    };
    let json = r#"{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "b"}}"#;
    let (a, b) = (one("a"), one("b"));
    for (custom, expected) in [
        (a.clone(), vec![a.clone()]),
        (format!("---\n{a}"), vec![format!("---\n{a}")]),
        (format!("%YAML 1.2\n# ours\n---\n{a}...\n"), vec![format!("%YAML 1.2\n# ours\n---\n{a}...\n")]),
        (format!("{a}---\n{b}"), vec![a.clone(), format!("---\n{b}")]),
        (format!("{a}--- # the second\r\n{b}---\n"), vec![a.clone(), format!("--- # the second\n{b}")]),
        (format!("{a}--- {json}\n"), vec![a.clone(), format!("--- {json}\n")]),
        (
            archive(&[&format!("Content-Type: application/node.eks.aws\n\n{a}---\n{b}")]),
            vec![a.clone(), format!("---\n{b}")],
        ),
        // Keys that are given twice, as nodeadm's own reader has it.
        (
            format!("{a}spec: {{a: 1}}\nspec: {{a: 2}}\n"),
            vec![format!("{a}spec: {{a: 1}}\nspec: {{a: 2}}\n")],
        ),
    ] {
        let expected: Vec<_> =
            expected.into_iter().map(|body| ("application/node.eks.aws".to_owned(), body)).collect();
        assert_eq!(theirs(AmiFamily::AL2023, &custom), expected, "{custom:?}");
    }
    for script in ["echo one\n", "- a\n---\nkind: NodeConfig\n", "#!/bin/sh\nkind: x\n"] {
        assert_eq!(theirs(AmiFamily::AL2023, script)[0].0, "text/x-shellscript", "{script:?}");
    }
}

/// The class reports text that would be run as another format, or by nothing.
#[test]
fn what_no_reader_of_the_family_takes_is_refused() {
    let windows = AmiFamily::Windows2022;
    for (family, custom, why) in [
        (AmiFamily::AL2023, "runcmd: [[ls]]\n".to_owned(), "begin it with `#cloud-config`"),
        (AmiFamily::AL2023, "{\"write_files\": []}".to_owned(), "begin it with `#cloud-config`"),
        (AmiFamily::AL2, "runcmd: [[ls]]\n".to_owned(), "begin it with `#cloud-config`"),
        (AmiFamily::AL2, NODE_CONFIG.to_owned(), "AL2 has no nodeadm"),
        (AmiFamily::AL2023, format!("{NODE_CONFIG}---\nkind: Pod\n"), "document 2 of a part"),
        (
            AmiFamily::AL2023,
            "kind: NodeConfig\nspec: {}\n".to_owned(),
            "has the apiVersion `` and the kind `NodeConfig`",
        ),
        (AmiFamily::AL2023, r#"{"apiVersion": "node.eks.aws/v1alpha1"}"#.to_owned(), "and the kind ``"),
        (AmiFamily::AL2023, format!("{NODE_CONFIG}spec: [\n"), "begins like a NodeConfig and is no YAML"),
        (AmiFamily::AL2, STANDARD.encode("#!/bin/bash\necho one\n"), "it is base64 already"),
        (AmiFamily::AL2023, STANDARD.encode("#cloud-config\n"), "it is base64 already"),
        (AmiFamily::AL2023, GZIP.to_owned(), "it is base64 already"),
        (AmiFamily::Bottlerocket, "#cloud-config\nruncmd: []\n".to_owned(), "it is for cloud-init"),
        (AmiFamily::Bottlerocket, NODE_CONFIG.to_owned(), "not valid TOML"),
        (AmiFamily::Bottlerocket, "#cloud-boothook\n#!/bin/sh\n".to_owned(), "it is for cloud-init"),
        (AmiFamily::Bottlerocket, "## template: jinja\n#cloud-config\n".to_owned(), "it is for cloud-init"),
        (AmiFamily::AL2023, "<powershell>\nls\n</powershell>".to_owned(), "it is for Windows"),
        (AmiFamily::AL2, "\n<SCRIPT>dir</SCRIPT>".to_owned(), "it is for Windows"),
        (AmiFamily::AL2023, "[settings.kubernetes]\nlog-level = 3\n".to_owned(), "it is for Bottlerocket"),
        (AmiFamily::AL2, "settings.motd = 'hello'\n".to_owned(), "it is for Bottlerocket"),
        (windows, NODE_CONFIG.to_owned(), "it is a NodeConfig"),
        (windows, "[settings]\nmotd = 'hello'\n".to_owned(), "it is settings of Bottlerocket"),
        (windows, STANDARD.encode("#!/bin/bash\n"), "it is base64 already"),
        (windows, "## template: jinja\n#cloud-config\n".to_owned(), "it is for cloud-init"),
        (windows, "#cloud-config\nruncmd: []\n".to_owned(), "it is for cloud-init"),
        (windows, "#!/bin/bash\nls\n".to_owned(), "it is for cloud-init"),
        (windows, "<script>dir</script>".to_owned(), "`<script>`"),
        (windows, "version: 1.0\ntasks:\n- task: executeScript\n".to_owned(), "tasks of EC2Launch"),
        (windows, "<powershell>dir".to_owned(), "not closed"),
        (windows, "</powershell>dir<powershell>".to_owned(), "closed before it is opened"),
        (windows, "<powershell>a</powershell><powershell>b</powershell>".to_owned(), "several"),
    ] {
        refused(family, &custom, why);
    }
}

#[test]
fn parts_that_no_reader_of_the_family_takes_are_refused() {
    let part = |headers: &str, body: &str| archive(&[&format!("{headers}\n\n{body}")]);
    let zipped = |kind: &str| part(&format!("Content-Type: {kind}\nContent-Transfer-Encoding: base64"), GZIP);
    let windows = AmiFamily::Windows2022;
    for (family, custom, why) in [
        (AmiFamily::AL2, part("Content-Type: text/plain", "ls"), "part 1 of the MIME document has no type"),
        (AmiFamily::AL2023, part("X: 1", "ls"), "part 1 of the MIME document has no type"),
        (AmiFamily::AL2023, part("Content-Type: text/x-shellscript", "#!/bin/sh\n--//\n"), "is a delimiter"),
        (AmiFamily::AL2023, zipped("text/cloud-config"), "which is not decompressed"),
        (AmiFamily::AL2023, zipped("application/node.eks.aws"), "which is not decompressed"),
        (AmiFamily::AL2, part("Content-Type: application/gzip", "#!/bin/sh"), "is said to be compressed"),
        (
            AmiFamily::AL2023,
            part("Content-Type: application/node.eks.aws", "#!/bin/sh\nls"),
            "and the kind ``",
        ),
        (AmiFamily::AL2023, part("Content-Type: application/node.eks.aws", "a: ["), "is no YAML"),
        (
            AmiFamily::AL2,
            part("Content-Type: Text/X-ShellScript", "#cloud-config\n"),
            "its text is `text/cloud-config`",
        ),
        (
            AmiFamily::AL2023,
            part("Content-Type: text/cloud-config", "#!/bin/sh\n"),
            "its text is `text/x-shellscript`",
        ),
        (
            AmiFamily::AL2023,
            part("Content-Type: text/cloud-config", NODE_CONFIG),
            "its text is `application/node.eks.aws`",
        ),
        (
            AmiFamily::AL2,
            part("Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode", "x"),
            "x-uuencode",
        ),
        (
            AmiFamily::AL2023,
            "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--a\n".to_owned(),
            "no boundary",
        ),
        (windows, archive(&["Content-Type: text/plain\n\nls"]), "it is for cloud-init"),
    ] {
        refused(family, &custom, why);
    }
}

fn refused(family: AmiFamily, custom: &str, why: &str) {
    let error = rendered(family, custom).expect_err(custom).to_string();
    assert!(error.contains(why) && error.contains("fix spec.userData"), "{family:?} {custom:?}: {error}");
}

const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
const GZIP: &str = "H4sIAAAAAAAAA1NOzskvTdFNzs9Ly0znKirNSy7O5+ICAF8Q5aMXAAAA";

#[test]
fn blocks_of_windows_are_joined_and_its_other_tags_stay_outside() {
    let told = |custom: &str| rendered(AmiFamily::Windows2022, custom).unwrap();
    let plain = told("# include a comment\nWrite-Host 1");
    assert!(
        plain.starts_with("<powershell>\n# include a comment\nWrite-Host 1\n[string]$EKSBoot"),
        "{plain}"
    );
    let blocks = told("<powershell>\r\nWrite-Host 1\r\n</powershell>\n<persist>true</persist>\n");
    assert!(blocks.starts_with("<powershell>\nWrite-Host 1\n[string]$EKSBoot"), "{blocks}");
    assert!(blocks.ends_with("\n</powershell>\n<persist>true</persist>"), "{blocks}");
    assert_eq!(blocks.matches("<powershell>").count(), 1);
    for outside in [
        "<persist>true</persist>\nWrite-Host 1",
        "Write-Host 1\r\n<Persist>true</Persist>\r\n",
        "<PowerShell>\nWrite-Host 1\n</PowerShell>\n<persist>true</persist>",
    ] {
        let text = told(outside);
        assert!(text.starts_with("<powershell>\nWrite-Host 1\n[string]$EKSBoot"), "{text}");
        assert!(text.to_ascii_lowercase().ends_with("\n</powershell>\n<persist>true</persist>"), "{text}");
    }
    assert!(told("#!/usr/bin/env pwsh\nWrite-Host 1").contains("Write-Host 1"));
}

/// A map of the class is laid over that of the user key by key; what is no map is refused with its path.
#[test]
fn maps_of_bottlerocket_keep_what_the_class_does_not_set() {
    let kubelet =
        KubeletConfiguration { system_reserved: Some(text_map([("cpu", "2")])), ..bootstrap().kubelet };
    let told = |custom: &str| {
        let custom = Some(custom.to_owned());
        render(AmiFamily::Bottlerocket, &Bootstrap { custom, kubelet: kubelet.clone(), ..bootstrap() })
    };
    for custom in [
        "[settings.kubernetes.system-reserved]\nmemory = '6Gi'\ncpu = '1'\n",
        "settings.kubernetes.'system-reserved' = {memory = '6Gi'}\n",
        "\u{feff}[settings.\"kubernetes\"]\r\nsystem-reserved.memory = \"6Gi\"\r\n",
    ] {
        let document: toml::Table = told(custom).unwrap().parse().unwrap();
        let reserved = &document["settings"]["kubernetes"]["system-reserved"];
        assert_eq!(reserved.to_string(), "{ cpu = \"2\", memory = \"6Gi\" }", "{custom}");
    }
    for (custom, path) in [
        ("settings.kubernetes.system-reserved = '6Gi'", "settings.kubernetes.system-reserved"),
        ("[[settings.kubernetes]]", "settings.kubernetes"),
        ("settings.kubernetes.node-labels = ['a']", "settings.kubernetes.node-labels"),
    ] {
        let error = told(custom).expect_err(custom).to_string();
        assert!(error.contains(&format!("`{path}` is not a table")), "{error}");
    }
}

/// aws#8126, bottlerocket#4754: the image defines the set of settings.
#[test]
fn bottlerocket_gets_every_setting_of_the_user_that_is_not_ours() {
    let custom = "motd = 'hello'\n\
        [settings.kubernetes]\nreserved-cpus = '0-1'\nno-such-setting = true\nmax-pods = 3\n\
        [settings.kubernetes.memory-manager-reserved-memory.0]\nenabled = true\nmemory = '1Gi'\n\
        [settings.kubernetes.node-labels]\nmine = 'kept'\n\
        [[settings.container-registry.mirrors]]\nregistry = '*'\nendpoint = ['https://one']\n\
        [settings.ntp]\ntime-servers = ['169.254.169.123']\n\
        [settings.later.version]\nwhen = 2026-01-01T00:00:00Z\nshare = 0.5\n\
        [elsewhere]\na = [1, 2]\n";
    let document: toml::Table = rendered(AmiFamily::Bottlerocket, custom).unwrap().parse().unwrap();
    let mut expected: toml::Table = custom.parse().unwrap();
    let plain: toml::Table = render(AmiFamily::Bottlerocket, &bootstrap()).unwrap().parse().unwrap();
    let kubernetes = |table: &toml::Table| table["settings"]["kubernetes"].as_table().unwrap().clone();
    let ours = kubernetes(&plain);
    let mut both = kubernetes(&expected);
    for (key, value) in ours {
        both.insert(key, value);
    }
    let labels = both["node-labels"].as_table_mut().unwrap();
    labels.insert("mine".to_owned(), "kept".into());
    expected["settings"].as_table_mut().unwrap().insert("kubernetes".to_owned(), both.into());
    assert_eq!(document, expected);
}
