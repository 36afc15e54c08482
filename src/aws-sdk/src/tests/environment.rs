//! Credentials, proxies and authorities from the environment, each case in a process of its own: variables cannot be changed
//! safely while a process runs.
//!
//! A test makes its servers and files, then runs itself again with the variables; there [`Child::asks`] asks STS who
//! it is. The answer and what the servers saw is what counts.

mod server;

use std::path::Path;
use std::process::Command;

use server::{Authority, Server};
use tempfile::TempDir;

use super::super::{Config, Retries, connect};

/// Set in the second process only.
const ROLE: &str = "KARPENTER_TEST_ASKS_STS";

/// A test, run again in a process with other variables.
struct Child {
    command: Command,
    home: TempDir,
}

/// The result: the account STS answered with, or the error.
type Answer = Result<String, String>;

impl Child {
    /// `None` in the second process, once it has asked and printed the answer.
    fn of(test: &str) -> Option<Self> {
        if std::env::var_os(ROLE).is_some() {
            Self::asks();
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env_clear().args(["--exact", "--nocapture", &format!("tests::environment::{test}")]);
        command.envs([(ROLE, "1"), ("AWS_REGION", "eu-west-1"), ("AWS_EC2_METADATA_DISABLED", "true")]);
        command.env("HOME", home.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        Some(Self { command, home })
    }

    fn asks() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let config = Config { retries: Retries::Never, ..Config::default() };
            let clients = connect(config).await?;
            clients.sts.get_caller_identity().await
        });
        match answer {
            Ok(identity) => println!("\nanswer: {}", identity.account),
            Err(error) => println!("\nerror: {error}"),
        }
    }

    fn set(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Credentials that mean nothing.
    fn with_key(self) -> Self {
        self.set("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT").set("AWS_SECRET_ACCESS_KEY", "secret")
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn answer(mut self) -> Answer {
        let output = self.command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
        match (line("answer: "), line("error: ")) {
            (Some(account), _) => Ok(account),
            (None, Some(error)) => Err(error),
            (None, None) => panic!("no answer: {text}{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

#[test]
fn a_proxy_that_looks_inside_is_gone_through_when_its_authority_is_trusted() {
    let Some(child) = Child::of("a_proxy_that_looks_inside_is_gone_through_when_its_authority_is_trusted")
    else {
        return;
    };
    let authority = Authority::new();
    let proxy = Server::intercepting(&authority, "sts.eu-west-1.amazonaws.com");
    child.file("ca.pem", &authority.certificate);
    let bundle = child.home().join("ca.pem");
    let child = child.with_key().set("HTTPS_PROXY", proxy.url()).set("AWS_CA_BUNDLE", &bundle);
    assert_eq!(child.answer().as_deref(), Ok(server::ACCOUNT));
    assert_eq!(proxy.asked(), ["CONNECT sts.eu-west-1.amazonaws.com:443 HTTP/1.1", "POST / HTTP/1.1"]);
}

#[test]
fn a_proxy_that_looks_inside_is_refused_when_its_authority_is_unknown() {
    let Some(child) = Child::of("a_proxy_that_looks_inside_is_refused_when_its_authority_is_unknown") else {
        return;
    };
    let (theirs, ours) = (Authority::new(), Authority::new());
    let proxy = Server::intercepting(&theirs, "sts.eu-west-1.amazonaws.com");
    child.file("ca.pem", &ours.certificate);
    let bundle = child.home().join("ca.pem");
    let child = child.with_key().set("HTTPS_PROXY", proxy.url()).set("AWS_CA_BUNDLE", &bundle);
    let error = child.answer().unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(proxy.asked(), ["CONNECT sts.eu-west-1.amazonaws.com:443 HTTP/1.1"]);
}

#[test]
fn an_unusable_bundle_is_named_with_what_to_do() {
    let Some(child) = Child::of("an_unusable_bundle_is_named_with_what_to_do") else { return };
    child.file("ca.pem", "no certificate at all\n");
    let bundle = child.home().join("ca.pem");
    let error = child.with_key().set("AWS_CA_BUNDLE", &bundle).answer().unwrap_err();
    let why = format!("cannot use `{}`: it has no usable certificate", bundle.display());
    assert!(error.contains("AWS_CA_BUNDLE") && error.contains(&why), "{error}");
}

#[test]
fn plain_requests_go_through_their_proxy_too() {
    let Some(child) = Child::of("plain_requests_go_through_their_proxy_too") else { return };
    let proxy = Server::plain();
    let child =
        child.with_key().set("HTTP_PROXY", proxy.url()).set("AWS_ENDPOINT_URL", "http://aws.test:4566");
    assert_eq!(child.answer().as_deref(), Ok(server::ACCOUNT));
    assert_eq!(proxy.asked(), ["POST http://aws.test:4566/ HTTP/1.1"]);
}

#[test]
fn hosts_that_are_excepted_are_asked_directly() {
    let Some(child) = Child::of("hosts_that_are_excepted_are_asked_directly") else { return };
    let (proxy, endpoint) = (Server::plain(), Server::plain());
    // Another spelling of this machine, which is not asked directly by itself.
    let url = endpoint.url().replace("127.0.0.1", "0.0.0.0");
    let child = child.with_key().set("HTTP_PROXY", proxy.url()).set("NO_PROXY", "0.0.0.0");
    assert_eq!(child.set("AWS_ENDPOINT_URL", url).answer().as_deref(), Ok(server::ACCOUNT));
    assert_eq!((proxy.asked().len(), endpoint.asked().len()), (0, 1));
}

#[test]
fn this_machine_is_never_asked_through_a_proxy() {
    let Some(child) = Child::of("this_machine_is_never_asked_through_a_proxy") else { return };
    let (proxy, endpoint) = (Server::plain(), Server::plain());
    let child = child.with_key().set("HTTP_PROXY", proxy.url()).set("AWS_ENDPOINT_URL", endpoint.url());
    assert_eq!(child.answer().as_deref(), Ok(server::ACCOUNT));
    assert_eq!((proxy.asked().len(), endpoint.asked().len()), (0, 1));
}

#[test]
fn a_profile_may_name_a_process() {
    let Some(child) = Child::of("a_profile_may_name_a_process") else { return };
    let endpoint = Server::plain();
    let keys = r#"{"Version": 1, "AccessKeyId": "AKIDPROCESS", "SecretAccessKey": "secret"}"#;
    child.file("keys.json", keys);
    let process = child.home().join("keys.json");
    child.file(".aws/config", &format!("[default]\ncredential_process = cat {}\n", process.display()));
    assert_eq!(child.set("AWS_ENDPOINT_URL", endpoint.url()).answer().as_deref(), Ok(server::ACCOUNT));
    assert_eq!(endpoint.keys(), ["AKIDPROCESS"]);
}

#[test]
fn a_profile_may_be_one_of_iam_identity_center() {
    let Some(child) = Child::of("a_profile_may_be_one_of_iam_identity_center") else { return };
    let endpoint = Server::plain();
    let profile = "sso_session = work\nsso_account_id = 123456789012\nsso_role_name = admin\n";
    let session = "sso_region = eu-west-1\nsso_start_url = https://work.awsapps.com/start\n";
    child.file(".aws/config", &format!("[default]\n{profile}[sso-session work]\n{session}"));
    // Token file that `aws sso login` leaves behind; it is named after the SHA-1 of the session's name.
    let token = r#"{"accessToken": "token", "expiresAt": "2999-01-01T00:00:00Z"}"#;
    child.file(".aws/sso/cache/e274eeff768c6396088ec6eb091f4bf4d47ab1e0.json", token);
    assert_eq!(child.set("AWS_ENDPOINT_URL", endpoint.url()).answer().as_deref(), Ok(server::ACCOUNT));
    assert_eq!(endpoint.keys(), ["AKIDCENTER"]);
}
