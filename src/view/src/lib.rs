//! The cluster on a terminal: machines with what they cost and hold, pods that wait, and what the cluster costs.
//!
//! Three parts, each of which can be read alone:
//!
//! - the **model**: [`World`] keeps of every object the fields that are shown and nothing else, so that 5,000 nodes and
//!   50,000 pods fit into a terminal program; `machine`, `totals`, `history`, `filter`, `order` and `list` derive rows;
//! - the **screen**: a [`Scene`] and what the user has chosen ([`Ui`]) become characters; keys change the choice. Neither
//!   part reads a clock, a terminal or the network, so a test is keys in and text out;
//! - the **loop** (`live`): watches, a probe of the API server, the terminal. Everything it asks is `get`, `list` or `watch`.
//!
//! Without a terminal to draw on, [`timeline`] prints a line for each thing that happens.
//!
//! Prices come through a [`PriceBook`], so this crate knows no cloud.

mod details;
mod document;
mod facts;
mod filter;
mod history;
mod list;
mod live;
mod machine;
mod order;
mod prices;
mod scene;
mod screen;
mod text;
pub mod timeline;
mod totals;
mod trouble;
mod ui;
mod world;

pub use details::{Details, EventFacts, Found, Subject};
pub use document::{Document, document};
pub use facts::Shown;
pub use filter::Filter;
pub use history::CostHistory;
pub use live::{Explainer, Planner, Sources, gather, show, terminal_width};
pub use order::{Sort, SortBy};
pub use prices::{PriceBook, Prices};
pub use scene::Scene;
pub use screen::{Style, draw, plain};
pub use trouble::Trouble;
pub use ui::{Ui, Wish};
pub use world::World;
