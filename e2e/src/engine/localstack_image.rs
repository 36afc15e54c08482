//! `LocalStack`'s image with the emulated account inside, from `PyPI` (`e2e/containers/localstack`).
//!
//! `LOCALSTACK_IMAGE` names another one. The machine's engine pulls its base; on an engine of our own the base is made
//! of Debian's packages, and pip reaches its index through a [`Relay`].

use anyhow::{Context, Result};

use super::node_image::debian;
use super::relay::Relay;
use super::{Engine, finish, own};
use crate::prepare;

/// The image; built if it is not there or no longer what it is made of.
pub async fn localstack_image(engine: &Engine) -> Result<String> {
    match std::env::var("LOCALSTACK_IMAGE") {
        Ok(name) if !name.is_empty() => Ok(name),
        _ => made(engine).await.context("make the image of LocalStack"),
    }
}

async fn made(engine: &Engine) -> Result<String> {
    let mut build = engine.command(prepare::containers().join("localstack/build"));
    let mut relay = None;
    if engine.is_own() {
        let base = debian(engine, "trixie", "python3,python3-venv,ca-certificates").await?;
        let proxy = relay.insert(Relay::outward(own::OUTSIDE).await?).address();
        // The builder passes both to pip, in capitals and not.
        build.env("BASE", base);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            build.env(name, format!("http://{proxy}"));
        }
    }
    tracing::info!("building LocalStack's image; about three minutes the first time");
    let name = finish(&mut build, "e2e/containers/localstack/build").await?;
    Ok(name.trim().to_owned())
}
