//! Questions asked together are answered together; no question is lost, and none is answered by an older call.

use futures::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::calls::observer::LaunchFailed;

const SECOND: Duration = Duration::from_secs(1);
const PLENTY: usize = 100;

/// Questions asked, with their times.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<(Duration, Vec<String>)>>);

impl Log {
    fn calls(&self) -> Vec<Vec<String>> {
        self.0.lock().iter().map(|(_, questions)| questions.clone()).collect()
    }
}

#[derive(Debug, Default)]
struct Sizes(Mutex<Vec<(usize, Duration)>>);

impl Observer for Sizes {
    fn launch_failed(&self, _: &LaunchFailed<'_>) {}
    fn termination_failed(&self, _: &str, _: &str) {}
    fn user_data(&self, _: &str, _: usize) {}
    fn batched(&self, batcher: &'static str, size: usize, waited: Duration) {
        assert_eq!(batcher, "test");
        self.0.lock().push((size, waited));
    }
}

struct World {
    batcher: Arc<Batcher<String, String>>,
    log: Arc<Log>,
    sizes: Arc<Sizes>,
    start: Instant,
}

/// Calls take a second and answer with the number of the call.
fn world(most: usize, rate: Rate) -> World {
    let (log, sizes, start) = (Arc::new(Log::default()), Arc::new(Sizes::default()), Instant::now());
    let kind = Kind { name: "test", operation: "Ask", most, rate, plenty: PLENTY };
    let calls = Arc::clone(&log);
    let call = move |questions: BTreeSet<String>| {
        let number = {
            let mut log = calls.0.lock();
            log.push((start.elapsed(), questions.iter().cloned().collect()));
            log.len()
        };
        async move {
            sleep(SECOND).await;
            let answer = |question: String| (question, Ok(format!("call {number}")));
            questions.into_iter().filter(|question| question != "forgotten").map(answer).collect()
        }
    };
    let observer: Arc<dyn Observer> = sizes.clone();
    World { batcher: Arc::new(Batcher::new(kind, observer, call)), log, sizes, start }
}

fn often() -> Rate {
    Rate { burst: 1_000, every: SECOND }
}

impl World {
    async fn ask(&self, question: &str) -> Result<String> {
        self.batcher.ask(question.to_owned()).await
    }

    /// Asks without being waited for.
    fn asking(&self, question: &str) -> JoinHandle<Result<String>> {
        let (batcher, question) = (Arc::clone(&self.batcher), question.to_owned());
        tokio::spawn(async move { batcher.ask(question).await })
    }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("q{number:03}")).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_within_a_moment_is_one_call() {
    let world = world(500, often());
    let questions = numbered(300);
    let answers = join_all(questions.iter().map(|question| world.ask(question))).await;
    assert!(answers.iter().all(|answer| *answer == Ok("call 1".to_owned())), "{answers:?}");
    assert_eq!(world.log.calls(), [questions]);
    assert_eq!(*world.sizes.0.lock(), [(300, IDLE)]);
}

#[tokio::test(start_paused = true)]
async fn questions_that_trickle_in_do_not_keep_a_batch_open() {
    let world = world(500, often());
    let mut asked = Vec::new();
    for question in numbered(40) {
        asked.push(world.asking(&question));
        sleep(IDLE / 2).await;
    }
    join_all(asked).await;
    let calls = world.log.0.lock().iter().map(|(at, questions)| (*at, questions.len())).collect::<Vec<_>>();
    assert_eq!(calls.iter().map(|(_, count)| count).sum::<usize>(), 40);
    assert_eq!(calls[0].0, LONGEST, "{calls:?}");
    assert_eq!(calls.len(), 2, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_goes_at_once_and_questions_go_in_the_order_they_came() {
    let world = world(2, Rate { burst: 1, every: 60 * SECOND });
    let asked: Vec<_> = ["c", "d", "a", "b", "e"].map(|question| world.asking(question)).into();
    sleep(SECOND / 1_000).await;
    assert_eq!(world.log.calls(), [["c", "d"], ["a", "b"]], "neither waits, nor takes the turn of the last");
    join_all(asked).await;
    assert_eq!(world.log.calls()[2], ["e"]);
    assert!(world.start.elapsed() < 2 * SECOND, "{:?}", world.start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn when_it_is_not_its_turn_a_batch_goes_on_collecting() {
    let world = world(500, Rate { burst: 2, every: 10 * SECOND });
    let mut asked = Vec::new();
    for question in numbered(60) {
        asked.push(world.asking(&question));
        sleep(SECOND).await;
    }
    let answers = join_all(asked).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(Result::is_ok)), "{answers:?}");
    let calls = world.log.0.lock();
    assert!(calls.len() <= 2 + 6, "{calls:?}");
    assert_eq!(calls.iter().map(|(_, questions)| questions.len()).sum::<usize>(), 60);
    let waited = world.sizes.0.lock().iter().map(|(_, waited)| *waited).max().unwrap();
    assert!(waited <= 10 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn plenty_of_questions_need_no_turn() {
    let world = world(500, Rate { burst: 1, every: 60 * SECOND });
    for round in 1..=5 {
        // As many as a controller works on at once: none more will come before these are answered.
        let questions = numbered(PLENTY);
        join_all(questions.iter().map(|question| world.ask(question))).await;
        assert_eq!(world.log.calls().len(), round);
    }
    assert!(world.start.elapsed() < 10 * SECOND, "{:?}", world.start.elapsed());
    world.ask("alone").await.unwrap();
    world.ask("alone").await.unwrap();
    assert!(world.start.elapsed() > 60 * SECOND, "few wait for their turn");
}

#[tokio::test(start_paused = true)]
async fn no_question_is_answered_by_a_call_that_began_before_it() {
    let world = world(500, often());
    let first = world.asking("a");
    sleep(IDLE + SECOND / 2).await;
    assert_eq!(world.log.calls().len(), 1, "on its way");
    assert_eq!(world.ask("a").await, Ok("call 2".to_owned()));
    assert_eq!(first.await.unwrap(), Ok("call 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_only_its_own_question_along() {
    let world = world(500, often());
    let [leader, leaver, same, other] = ["a", "b", "c", "c"].map(|question| world.asking(question));
    sleep(IDLE / 2).await;
    for gone in [leader, leaver, same] {
        gone.abort();
        assert!(gone.await.is_err());
    }
    assert_eq!(other.await.unwrap(), Ok("call 1".to_owned()));
    assert_eq!(world.log.calls(), [["c"]], "none waits for the others any more");
}

#[tokio::test(start_paused = true)]
async fn a_call_on_its_way_goes_on_for_those_who_stay() {
    let world = world(500, often());
    let [leader, other] = ["a", "b"].map(|question| world.asking(question));
    sleep(IDLE + SECOND / 2).await;
    leader.abort();
    assert!(leader.await.is_err());
    assert_eq!(other.await.unwrap(), Ok("call 1".to_owned()));
    assert_eq!(world.log.calls(), [["a", "b"]]);
}

#[tokio::test(start_paused = true)]
async fn when_all_have_gone_nothing_is_asked_and_nothing_is_left() {
    let world = world(500, often());
    for gone in ["a", "b"].map(|question| world.asking(question)) {
        sleep(IDLE / 4).await;
        gone.abort();
        assert!(gone.await.is_err());
    }
    sleep(60 * SECOND).await;
    assert!(world.log.calls().is_empty());
    assert!(world.batcher.shared.queue.lock().waiting.is_empty());
    let during = world.asking("c");
    sleep(IDLE + SECOND / 2).await;
    during.abort();
    assert!(during.await.is_err());
    assert_eq!(Arc::strong_count(&world.batcher.shared), 1, "the call that was given up holds nothing");
    assert_eq!(world.ask("d").await, Ok("call 2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_question_without_answer_is_an_error_of_its_own() {
    let world = world(500, often());
    let (forgotten, known) = tokio::join!(world.ask("forgotten"), world.ask("known"));
    assert_eq!(known, Ok("call 1".to_owned()));
    let error = forgotten.unwrap_err();
    assert_eq!((error.operation, error.kind), ("Ask", karpenter_aws_api::Kind::Transient));
}
