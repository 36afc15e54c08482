//! The loop: follows the cluster, asks for what a page needs, draws, and reads keys.
//!
//! At most ten frames a second, and none when nothing has changed but the second. A frame that is the same as the last
//! one writes nothing to the terminal, so a slow line carries differences only.

mod asking;
mod following;
mod probe;
mod terminal;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::future::BoxFuture;
use karpenter_model::Clock;
use kube::Client;
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use crate::details::Details;
use crate::facts::Shown;
use crate::history::CostHistory;
use crate::machine::machines;
use crate::prices::Prices;
use crate::scene::Scene;
use crate::screen::{self, Style};
use crate::totals::Totals;
use crate::trouble::Trouble;
use crate::ui::{Ui, Wish};

use asking::Asker;
use following::Cluster;
pub use terminal::terminal_width;

/// Requests the explanation of the controller for `node/NAME`, `nodeclaim/NAME` or `pod/NAMESPACE/NAME`. The error is for people.
pub type Explainer = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Returns the plan of the cluster as a text. The error is for people.
pub type Planner = Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Sources of all data.
#[derive(Clone)]
pub struct Sources {
    /// The cluster, of which Nodes, pods, claims and events are read.
    pub client: Client,
    /// Name of the cluster.
    pub cluster: String,
    /// Prices of machines; may change.
    pub prices: watch::Receiver<Prices>,
    /// The controller.
    pub explainer: Explainer,
    /// The plan of the cluster.
    pub planner: Planner,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Changes are drawn this much later at most, together with all others of that time.
const FRAME: Duration = Duration::from_millis(100);
/// Ages and the time change this often.
const SECOND: Duration = Duration::from_secs(1);
/// Time that one frame for a script waits for lists.
const LISTS_WITHIN: Duration = Duration::from_mins(2);
/// And then for prices: the price list of AWS has many pages.
const PRICES_WITHIN: Duration = Duration::from_mins(1);

const WATCH_ENDED: &str = "a watch of the cluster has failed; please report this";

/// Input of one view of the cluster.
struct Look {
    sources: Sources,
    cluster: Arc<Cluster>,
    history: CostHistory,
    /// The watches; they end with this.
    tasks: JoinSet<()>,
}

impl Look {
    fn start(sources: Sources, shown: Shown) -> Self {
        let mut tasks = JoinSet::new();
        let cluster = Cluster::follow(&sources.client, shown, &sources.clock, &mut tasks);
        Self { sources, cluster, history: CostHistory::default(), tasks }
    }

    /// Records what the cluster costs at this moment, and lets `with` see the scene.
    fn observe<T>(&mut self, details: Option<&Details>, with: impl FnOnce(&Scene<'_>) -> T) -> T {
        let now = self.sources.clock.now();
        let prices = self.sources.prices.borrow().clone();
        let mut troubles = self.cluster.troubles();
        troubles.extend(prices.trouble());
        let complete = self.cluster.is_complete();
        let world = self.cluster.world();
        // Half a list would look like a cluster that grows.
        if complete && prices.are_there() {
            self.history.record(now, Totals::of(&machines(&world, &prices)).price);
        }
        with(&Scene {
            world: &world,
            prices: &prices,
            history: &self.history,
            troubles: &troubles,
            details,
            cluster: &self.sources.cluster,
            complete,
            now,
        })
    }
}

/// Reads the cluster once and lets `with` see it. Fails when the API server does not answer; what the user may not read
/// is among the troubles of the scene.
pub async fn gather<T>(sources: Sources, shown: Shown, with: impl FnOnce(&Scene<'_>) -> T) -> Result<T> {
    let mut look = Look::start(sources, shown);
    let cluster = Arc::clone(&look.cluster);
    let listed = async {
        while !cluster.is_complete() {
            if let Some(away) = cluster.away() {
                bail!("cannot read the cluster: {}", away.full());
            }
            tokio::select! {
                () = cluster.changed() => {}
                () = sleep(FRAME) => {}
                Some(ended) = look.tasks.join_next() => ended.context(WATCH_ENDED)?,
            }
        }
        Ok(())
    };
    match timeout(LISTS_WITHIN, listed).await {
        Ok(outcome) => outcome?,
        Err(_elapsed) => {
            let troubles: Vec<String> = cluster.troubles().iter().map(Trouble::full).collect();
            bail!("cannot read the cluster within {LISTS_WITHIN:?}; try again\n{}", troubles.join("\n"));
        }
    }
    let mut prices = look.sources.prices.clone();
    // Without prices in time the scene shows that there are none.
    let _ = timeout(PRICES_WITHIN, prices.wait_for(Prices::settled)).await;
    Ok(look.observe(None, with))
}

/// Shows the cluster on the terminal until the user quits or the process is asked to end. The terminal is as it was
/// afterwards, also after a panic.
pub async fn show(sources: Sources, shown: Shown, ui: Ui, style: Style) -> Result<()> {
    let stopped = terminal::stopped().context("cannot wait for signals")?;
    let mut screen = ratatui::try_init().context(
        "cannot set up the terminal; use `--once`, `--output json` or `--timeline` where there is none",
    )?;
    let keys = terminal::events();
    let outcome = run(&mut screen, keys, stopped, sources, shown, ui, style).await;
    ratatui::restore();
    outcome
}

/// The loop on any kind of terminal.
async fn run<B: Backend>(
    screen: &mut Terminal<B>,
    mut keys: mpsc::UnboundedReceiver<Event>,
    stopped: impl Future<Output = ()>,
    sources: Sources,
    shown: Shown,
    mut ui: Ui,
    style: Style,
) -> Result<()>
where
    B::Error: Send + Sync + 'static,
{
    let mut asker = Asker::new(&sources);
    let mut prices = sources.prices.clone();
    let mut look = Look::start(sources, shown);
    let cluster = Arc::clone(&look.cluster);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let subject = look.observe(asker.details(), |scene| {
            let subject = ui.subject(scene);
            let drawn = screen.draw(|frame| {
                let area = frame.area();
                screen::draw(scene, &mut ui, style, area, frame.buffer_mut());
            });
            drawn.map(|_| subject)
        });
        asker.ask(subject.context("cannot draw on the terminal")?);
        let drawn = Instant::now();
        let mut changed = false;
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(()),
                event = keys.recv() => {
                    let Some(event) = event else { return Ok(()) };
                    if press(&mut ui, &event) == Wish::Quit {
                        return Ok(());
                    }
                    // A held key brings more than can be drawn.
                    while let Ok(event) = keys.try_recv() {
                        if press(&mut ui, &event) == Wish::Quit {
                            return Ok(());
                        }
                    }
                    break;
                }
                // The panic hook has given the terminal back, so going on would draw over a shell.
                Some(ended) = look.tasks.join_next() => ended.context(WATCH_ENDED)?,
                answered = asker.answered() => {
                    answered.context("asking for the page that is open has failed; please report this")?;
                    break;
                }
                () = cluster.changed(), if !changed => changed = true,
                Ok(()) = prices.changed(), if !changed => changed = true,
                () = sleep_until(drawn + FRAME), if changed => break,
                () = sleep_until(drawn + SECOND) => break,
            }
        }
    }
}

fn press(ui: &mut Ui, event: &Event) -> Wish {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => ui.press(*key),
        _ => Wish::Draw,
    }
}

#[cfg(test)]
mod tests;
