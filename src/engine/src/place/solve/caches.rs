//! What a solver has computed before and need not compute again. Dropping all of it at any time would change how long
//! a pass takes, and nothing else.
//!
//! | cache | key | lifetime |
//! |---|---|---|
//! | `rules`: interned requirements, the algebra over them | requirement, pair of sets | the solver |
//! | `catalogues`: masks, prices and rankings of instance types | requirement set | the solver |
//! | `learnt`: existing machines that are unsuitable, pools that could host, least prices | ask | the solver |
//! | `learnt`: machines and in-flight nodes without room | ask | one pass |
//! | `learnt`: machines and in-flight nodes other pods keep it out of, exhaustion | want | one pass |
//! | `refusals`: what each pool said | want and version of the rules about other pods | one pass |
//! | `made`: claims without their pods | pool, requirements, instance types, reservations | the solver, 1,000 at most |
//! | `refused`: scratch space | – | one search |

use std::collections::BTreeMap;

use karpenter_model::PoolRefusal;

use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{CatalogueIx, InFlightIx, IxVec, WantIx};
use crate::place::ask::{Learnt, Wants};
use crate::place::claim::Made;
use crate::rules::Rules;

/// All caches of a solver.
#[derive(Debug, Clone)]
pub(super) struct Caches<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) catalogues: IxVec<CatalogueIx, Catalogue<'a>>,
    pub(super) learnt: Learnt,
    /// Per want that everything refused: what each pool said, and the version of the rules about others then.
    pub(super) refusals: BTreeMap<WantIx, (u64, Vec<PoolRefusal>)>,
    /// Claims for in-flight nodes that are alike.
    pub(super) made: Made,
    /// Room for the in-flight nodes that refuse one pod.
    pub(super) refused: Bits<InFlightIx>,
}

impl<'a> Caches<'a> {
    /// Nothing is known about any of `wants` yet.
    pub(super) fn new(
        rules: Rules<'a>,
        catalogues: IxVec<CatalogueIx, Catalogue<'a>>,
        wants: &Wants,
    ) -> Self {
        let (refusals, made, refused) = Default::default();
        Self { rules, catalogues, learnt: Learnt::new(wants), refusals, made, refused }
    }

    /// Drops what holds in one pass only.
    pub(super) fn next_pass(&mut self) {
        self.learnt.next_pass();
        self.refusals.clear();
    }
}
