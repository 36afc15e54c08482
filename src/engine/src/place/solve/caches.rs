//! Results that a solver has computed and need not compute again. Dropping all of it at any time would change the
//! duration of a pass, and nothing else.
//!
//! | cache | key | lifetime |
//! |---|---|---|
//! | `rules`: interned requirements, the algebra over them | requirement, pair of sets | the solver |
//! | `catalogues`: masks, prices and rankings of instance types | requirement set | the solver |
//! | `learnt`: pools that could host, least prices | demand | the solver |
//! | `learnt`: existing nodes that are unsuitable | demand | one filling that passes begin with |
//! | `learnt`: existing and in-flight nodes without room | demand | one pass |
//! | `learnt`: existing and in-flight nodes other pods keep it out of, exhaustion | level | one pass |
//! | `refusals`: the refusal of each pool | level and version of the rules about other pods | one pass |
//! | `made`: claims without their pods | pool, requirements, instance types, reservations | the solver, 1,000 at most |
//! | `refused`: scratch space | – | one search |

use std::collections::BTreeMap;

use karpenter_model::PoolRefusal;

use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{CatalogueIx, InFlightIx, IxVec, LevelIx};
use crate::place::claim::Made;
use crate::place::learnt::Learnt;
use crate::place::level::Levels;
use crate::rules::Rules;

/// All caches of a solver.
#[derive(Debug, Clone)]
pub(super) struct Caches<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) catalogues: IxVec<CatalogueIx, Catalogue<'a>>,
    pub(super) learnt: Learnt,
    /// Refusals per level that everything refused: that of each pool, and the version of the rules about others then.
    pub(super) refusals: BTreeMap<LevelIx, (u64, Vec<PoolRefusal>)>,
    /// Claims for in-flight nodes that are alike.
    pub(super) made: Made,
    /// Room for the in-flight nodes that refuse one pod.
    pub(super) refused: Bits<InFlightIx>,
}

impl<'a> Caches<'a> {
    /// Creates them with nothing known about any of `levels`.
    pub(super) fn new(
        rules: Rules<'a>,
        catalogues: IxVec<CatalogueIx, Catalogue<'a>>,
        levels: &Levels,
    ) -> Self {
        let (refusals, made, refused) = Default::default();
        Self { rules, catalogues, learnt: Learnt::new(levels), refusals, made, refused }
    }

    /// Drops what holds in one pass only.
    pub(super) fn next_pass(&mut self) {
        self.learnt.next_pass();
        self.refusals.clear();
    }

    /// Drops what holds only as long as passes begin with the same filling.
    pub(super) fn next_filling(&mut self) {
        self.learnt.next_filling();
        self.refusals.clear();
    }
}
