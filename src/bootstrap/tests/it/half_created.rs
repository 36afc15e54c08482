//! An account in which only the first steps were carried out, whichever.

use crate::account::Fixture;

#[tokio::test(start_paused = true)]
async fn apply_goes_on_from_any_step() {
    let total = Fixture::fresh().await.plan().await.steps.len();
    assert!(total > 20);
    for count in 0..total {
        let fixture = Fixture::fresh().await;
        fixture.apply_some(count).await;
        assert!(!fixture.check().await.ready || fixture.plan().await.steps.len() < total, "{count}");
        fixture.apply().await.unwrap_or_else(|error| panic!("after {count} steps: {error}"));
        assert!(fixture.plan().await.is_empty(), "after {count} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn destroy_takes_back_any_first_steps() {
    let total = Fixture::fresh().await.plan().await.steps.len();
    for count in 0..total {
        let fixture = Fixture::fresh().await;
        let before = fixture.plan().await.steps.len();
        fixture.apply_some(count).await;
        fixture.destroy().await.unwrap_or_else(|error| panic!("after {count} steps: {error}"));
        assert!(fixture.destroy().await.unwrap().steps.is_empty(), "after {count} steps");
        // All but the spot role, which is the first step and stays.
        let left = fixture.plan().await.steps.len();
        assert_eq!(left, before - usize::from(count > 0), "after {count} steps");
    }
}
