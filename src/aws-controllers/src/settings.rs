//! The settings that only AWS has: names, defaults, and what each value may be (spec aws-operations 3.1).

use std::path::PathBuf;
use std::time::Duration;

use karpenter_aws::Gates;
use karpenter_controllers::settings::{Flag, Reader, SettingError, Source, gate_list};

/// The settings of the AWS provider, in the order of the reference's documentation.
pub const FLAGS: &[Flag] = &[
    Flag::new(
        "cluster-ca-bundle",
        "CLUSTER_CA_BUNDLE",
        "",
        "Base64 CA bundle that nodes trust; empty takes that of the controller's own connection",
    ),
    Flag::new("cluster-name", "CLUSTER_NAME", "", "Name of the EKS cluster; required"),
    Flag::new(
        "cluster-endpoint",
        "CLUSTER_ENDPOINT",
        "",
        "API server endpoint that nodes join; empty asks eks:DescribeCluster",
    ),
    Flag::switch("isolated-vpc", "ISOLATED_VPC", "false", "The VPC cannot reach the IAM and pricing APIs"),
    Flag::new(
        "price-file",
        "PRICE_FILE",
        "",
        "File with on-demand prices (CSV with the columns instance_type and price_per_hour), which count before those \
         of AWS; read again when it changes; not in the reference",
    ),
    Flag::switch(
        "eks-control-plane",
        "EKS_CONTROL_PLANE",
        "false",
        "Take cluster details such as the version from eks:DescribeCluster",
    ),
    Flag::new(
        "vm-memory-overhead-percent",
        "VM_MEMORY_OVERHEAD_PERCENT",
        "0.075",
        "Share of memory that a virtual machine never sees, as a decimal",
    ),
    Flag::new(
        "interruption-queue",
        "INTERRUPTION_QUEUE",
        "",
        "Name of the SQS queue with interruption messages; empty is off",
    ),
    Flag::new("reserved-enis", "RESERVED_ENIS", "0", "Network interfaces kept out of the pod count"),
    Flag::switch(
        "disable-dry-run",
        "DISABLE_DRY_RUN",
        "false",
        "Skip the dry runs that validate an EC2NodeClass",
    ),
    Flag::switch(
        "enable-zonal-shift",
        "ENABLE_ZONAL_SHIFT",
        "false",
        "Launch and disrupt nothing in zones that the cluster is shifted away from",
    ),
    Flag::new("ami-refresh-interval", "AMI_REFRESH_INTERVAL", "1m", "How often images are looked up"),
    Flag::new("subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL", "1m", "How often subnets are looked up"),
    Flag::new(
        "security-group-refresh-interval",
        "SECURITY_GROUP_REFRESH_INTERVAL",
        "1m",
        "How often security groups are looked up",
    ),
    Flag::new(
        "aws-feature-gates",
        "AWS_FEATURE_GATES",
        "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false",
        "Features of the AWS provider to switch on or off; unknown names are ignored and logged",
    ),
    Flag::new(
        "capacity-backoff-max",
        "CAPACITY_BACKOFF_MAX",
        "30m",
        "Longest an offering that keeps lacking capacity is left alone while others will do; not in the reference",
    ),
];

/// One feature gate of the AWS provider.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Name as users write it.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Field of the provider's gates.
    place: fn(&mut Gates) -> &mut bool,
}

/// The feature gates of the AWS provider, all off by default, in the order of the reference.
pub const GATES: &[Gate] = &[
    Gate {
        name: "NodeClassCEL",
        help: "Evaluate expressions in `spec.kubelet` of an EC2NodeClass for each instance type",
        place: |gates| &mut gates.node_class_cel,
    },
    Gate {
        name: "DRANVIDIAGPU",
        help: "Plan new nodes for resource claims of NVIDIA devices",
        place: |gates| &mut gates.dra_nvidia_gpu,
    },
    Gate {
        name: "DRAEFA",
        help: "Plan new nodes for resource claims of EFA devices",
        place: |gates| &mut gates.dra_efa,
    },
    Gate {
        name: "RebootForRepair",
        help: "Reboot an instance instead of replacing it where that is the cure",
        place: |gates| &mut gates.reboot_for_repair,
    },
];

/// The settings of one process, resolved and valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per flag, named as users write them")]
pub struct Settings {
    /// Base64; empty when it is to be found out.
    pub cluster_ca_bundle: String,
    pub cluster_name: String,
    /// Empty when it is to be found out.
    pub cluster_endpoint: String,
    pub isolated_vpc: bool,
    /// Path of the file; `None` when there is none.
    pub price_file: Option<PathBuf>,
    pub eks_control_plane: bool,
    /// Parts per million of the advertised memory.
    pub vm_memory_overhead_ppm: u32,
    /// Name of the queue; `None` is off.
    pub interruption_queue: Option<String>,
    pub reserved_enis: u32,
    pub disable_dry_run: bool,
    pub enable_zonal_shift: bool,
    /// At least a minute.
    pub ami_refresh_interval: Duration,
    /// At least a minute.
    pub subnet_refresh_interval: Duration,
    /// At least a minute.
    pub security_group_refresh_interval: Duration,
    pub gates: Gates,
    /// Names of gates that were given and that there are not, in the order given.
    pub unknown_gates: Vec<String>,
    /// At least a minute.
    pub capacity_backoff_max: Duration,
}

impl Settings {
    /// Resolves every setting. `given` answers with the text and its origin when a flag or variable is set. All wrong
    /// values are reported together.
    pub fn resolve<'a>(
        given: impl Fn(&Flag) -> Option<(&'a str, Source)>,
    ) -> Result<Self, Vec<SettingError>> {
        let mut reader = Reader::new(&[FLAGS], given);
        let (gates, unknown_gates) = reader.value("aws-feature-gates", GATES_ALLOWED, parse_gates);
        let settings = Self {
            cluster_ca_bundle: reader.value("cluster-ca-bundle", BUNDLE, bundle),
            cluster_name: reader.required("cluster-name", "the name of the EKS cluster", is_cluster_name),
            cluster_endpoint: reader.value("cluster-endpoint", URL, url),
            isolated_vpc: reader.boolean("isolated-vpc"),
            price_file: Some(reader.text("price-file")).filter(|path| !path.is_empty()).map(PathBuf::from),
            eks_control_plane: reader.boolean("eks-control-plane"),
            vm_memory_overhead_ppm: reader.value("vm-memory-overhead-percent", FRACTION, parts_per_million),
            interruption_queue: Some(reader.value("interruption-queue", QUEUE, queue))
                .filter(|name| !name.is_empty()),
            reserved_enis: reader.number("reserved-enis"),
            disable_dry_run: reader.boolean("disable-dry-run"),
            enable_zonal_shift: reader.boolean("enable-zonal-shift"),
            ami_refresh_interval: reader.duration_from_one_minute("ami-refresh-interval"),
            subnet_refresh_interval: reader.duration_from_one_minute("subnet-refresh-interval"),
            security_group_refresh_interval: reader
                .duration_from_one_minute("security-group-refresh-interval"),
            gates,
            unknown_gates,
            capacity_backoff_max: reader.duration_from_one_minute("capacity-backoff-max"),
        };
        reader.finish().map(|()| settings)
    }
}

/// Notation of gates. Unknown names are not an error as they are for the gates of the core: a list written for
/// another release of the provider must not stop this one.
const GATES_ALLOWED: &str = "Name=true or Name=false, separated by commas; names are NodeClassCEL, DRANVIDIAGPU, \
                             DRAEFA and RebootForRepair";

fn parse_gates(text: &str) -> Option<(Gates, Vec<String>)> {
    let (mut gates, mut unknown) = (Gates::default(), Vec::new());
    for (name, value) in gate_list(text)? {
        match GATES.iter().find(|known| known.name == name) {
            Some(gate) => *(gate.place)(&mut gates) = value,
            None => unknown.push(name.to_owned()),
        }
    }
    Some((gates, unknown))
}

const URL: &str = "an absolute URL such as https://ABC.gr7.eu-west-1.eks.amazonaws.com";

/// An absolute URL with a host, or nothing.
fn url(text: &str) -> Option<String> {
    let host = text.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    (text.is_empty() || host.is_some_and(|host| !host.is_empty())).then(|| text.to_owned())
}

/// Returns whether a text can be the name of a cluster: an ARN or a URL is none.
fn is_cluster_name(text: &str) -> bool {
    !text.contains([':', '/']) && !text.contains(char::is_whitespace)
}

const QUEUE: &str = "the name of the queue alone, which ends its URL and its ARN";

/// The name of a queue, or nothing. A URL or an ARN would be a queue that is not found, once a second.
fn queue(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (text.len() <= 80 && text.bytes().all(plain)).then(|| text.to_owned())
}

const BUNDLE: &str = "the base64 of the cluster's certificates, as EKS shows it";

/// Base64, or nothing; the certificates themselves would be refused by each launch.
fn bundle(text: &str) -> Option<String> {
    let encodes = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let encoded = text.len().is_multiple_of(4) && text.bytes().all(encodes);
    (encoded && !text.starts_with(ENCODED_TWICE)).then(|| text.to_owned())
}

/// Beginning of the base64 of a base64 of certificates, as `base64` makes it of what EKS shows.
const ENCODED_TWICE: &str = "TFMwdExTMUNSVWRK";

const FRACTION: &str = "a decimal that is not negative and below 1, such as 0.075 for 7.5 %";

/// Parts per million from a decimal such as `0.075`: exact, no floats. With all of the memory or more, no type has any left.
fn parts_per_million(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let readable = !(whole.is_empty() && fraction.is_empty()) && digits(whole) && digits(fraction);
    if !readable || fraction.len() > 6 {
        return None;
    }
    format!("{whole}{fraction:0<6}").parse().ok().filter(|ppm| *ppm < 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(given: &[(&str, &'static str)]) -> Result<Settings, Vec<SettingError>> {
        Settings::resolve(|flag| {
            let found = given.iter().find(|(name, _)| *name == flag.name);
            found.map(|(_, text)| (*text, Source::Environment))
        })
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let want = Settings {
            cluster_ca_bundle: String::new(),
            cluster_name: "demo".to_owned(),
            cluster_endpoint: String::new(),
            isolated_vpc: false,
            price_file: None,
            eks_control_plane: false,
            vm_memory_overhead_ppm: 75_000,
            interruption_queue: None,
            reserved_enis: 0,
            disable_dry_run: false,
            enable_zonal_shift: false,
            ami_refresh_interval: Duration::from_mins(1),
            subnet_refresh_interval: Duration::from_mins(1),
            security_group_refresh_interval: Duration::from_mins(1),
            gates: Gates::default(),
            unknown_gates: Vec::new(),
            capacity_backoff_max: Duration::from_mins(30),
        };
        assert_eq!(resolve(&[("cluster-name", "demo")]), Ok(want));
    }

    #[test]
    fn wrong_values_are_named_together_with_what_is_allowed() {
        let errors = resolve(&[
            ("cluster-endpoint", "host"),
            ("vm-memory-overhead-percent", "7.5%"),
            ("reserved-enis", "-1"),
            ("ami-refresh-interval", "59s"),
            ("security-group-refresh-interval", "59s"),
            ("aws-feature-gates", "NodeClassCEL"),
            ("isolated-vpc", "yes"),
        ])
        .unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "environment variable `AWS_FEATURE_GATES` is `NodeClassCEL`; use Name=true or Name=false, separated \
                 by commas; names are NodeClassCEL, DRANVIDIAGPU, DRAEFA and RebootForRepair",
                "flag `--cluster-name` or environment variable `CLUSTER_NAME` is needed: the name of the EKS cluster",
                "environment variable `CLUSTER_ENDPOINT` is `host`; use an absolute URL such as \
                 https://ABC.gr7.eu-west-1.eks.amazonaws.com",
                "environment variable `ISOLATED_VPC` is `yes`; use true or false",
                "environment variable `VM_MEMORY_OVERHEAD_PERCENT` is `7.5%`; use a decimal that is not negative \
                 and below 1, such as 0.075 for 7.5 %",
                "environment variable `RESERVED_ENIS` is `-1`; use a whole number that is not negative",
                "environment variable `AMI_REFRESH_INTERVAL` is `59s`; use a duration of at least 1m such as 5m or \
                 1h30m",
                "environment variable `SECURITY_GROUP_REFRESH_INTERVAL` is `59s`; use a duration of at least 1m such \
                 as 5m or 1h30m",
            ]
        );
    }

    #[test]
    fn gates_are_read_unknown_names_are_kept_and_malformed_lists_are_refused() {
        let gates = |text| {
            let settings = resolve(&[("cluster-name", "demo"), ("aws-feature-gates", text)]);
            settings.map(|settings| (settings.gates, settings.unknown_gates))
        };
        let none = Gates::default();
        let cel = Gates { node_class_cel: true, ..none };
        let rest = Gates { dra_nvidia_gpu: true, dra_efa: true, reboot_for_repair: true, ..none };
        let table: [(&str, Gates, &[&str]); 5] = [
            (" NodeClassCEL=True, ", cel, &[]),
            ("DRANVIDIAGPU=1,DRAEFA=t,RebootForRepair=true", rest, &[]),
            ("Later=true,NodeClassCEL=true,nodeclasscel=false", cel, &["Later", "nodeclasscel"]),
            ("NodeClassCEL=true,NodeClassCEL=false", none, &[]),
            (",", none, &[]),
        ];
        for (text, want, unknown) in table {
            let unknown = unknown.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(gates(text), Ok((want, unknown)), "{text}");
        }
        for text in ["NodeClassCEL", "NodeClassCEL=yes", "NodeClassCEL=", "NodeClassCEL=true;DRAEFA=true"] {
            assert_eq!(gates(text).unwrap_err().len(), 1, "{text}");
        }
    }

    #[test]
    fn default_of_the_flag_names_every_gate_off_and_the_error_every_gate() {
        let flag = FLAGS.iter().find(|flag| flag.name == "aws-feature-gates").unwrap();
        let off: Vec<String> = GATES.iter().map(|gate| format!("{}=false", gate.name)).collect();
        assert_eq!(flag.default, off.join(","));
        assert!(GATES.iter().all(|gate| GATES_ALLOWED.contains(gate.name)));
    }

    #[test]
    fn a_price_file_is_a_path_and_an_empty_one_is_none() {
        let file = |path| resolve(&[("cluster-name", "demo"), ("price-file", path)]).unwrap().price_file;
        assert_eq!(file("/prices/prices.csv"), Some(PathBuf::from("/prices/prices.csv")));
        assert_eq!(file(""), None);
    }

    #[test]
    fn a_url_and_an_arn_are_no_names() {
        let refused = |flag: &'static str, text: &'static str| {
            let errors = resolve(&[("cluster-name", "demo"), (flag, text)]).err().unwrap_or_default();
            errors.into_iter().map(|error| error.flag).collect::<Vec<_>>()
        };
        for text in ["https://sqs.us-west-2.amazonaws.com/1/demo", "arn:aws:sqs:us-west-2:1:demo", "my queue"]
        {
            assert_eq!(refused("interruption-queue", text), ["interruption-queue"], "{text}");
        }
        for text in ["", "demo", "Karpenter-demo_1", "demo.fifo"] {
            assert!(refused("interruption-queue", text).is_empty(), "{text}");
        }
        for (name, allowed) in [
            ("demo", true),
            ("demo.example.com", true),
            ("arn:aws:eks:us-west-2:1:cluster/demo", false),
            ("my demo", false),
        ] {
            assert_eq!(is_cluster_name(name), allowed, "{name}");
        }
    }

    #[test]
    fn certificates_are_encoded() {
        assert!(bundle("").is_some() && bundle("LS0tLS1CRUdJTg==").is_some());
        for text in ["foo", "-----BEGIN CERTIFICATE-----", "TFMw TFM", "TFMwdExTMUNSVWRKVGlCRA=="] {
            assert_eq!(bundle(text), None, "{text}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        let table = [("0.075", 75_000), ("0", 0), ("0.999999", 999_999), (".5", 500_000), ("0.000001", 1)];
        for (text, ppm) in table {
            assert_eq!(parts_per_million(text), Some(ppm), "{text}");
        }
        for text in ["", ".", "-0.1", "7.5%", "0.0000001", "1e-2", "99999", "1", "7.5"] {
            assert_eq!(parts_per_million(text), None, "{text:?}");
        }
    }

    #[test]
    fn flags_and_variables_have_the_same_words() {
        for flag in FLAGS {
            assert_eq!(flag.env, flag.name.replace('-', "_").to_uppercase());
        }
    }
}
