//! Answers of `karpenter explain`, asked as a user asks: by the built binary, of the controller that runs.

use anyhow::Result;

use crate::wait;
use crate::world::World;

/// Waits until the answer to `question`, written as `node/NAME` and the like, contains every one of `texts`.
pub(super) async fn explained(world: &World, question: &str, texts: &[&str]) -> Result<()> {
    wait::until(&format!("`karpenter explain {question}` to say {texts:?}"), || async {
        let (code, said) = world.explain(question).await?;
        let complete = code == 0 && texts.iter().all(|text| said.contains(text));
        Ok(if complete { Ok(()) } else { Err(format!("exit code {code}: {said}")) })
    })
    .await
}
