//! Capacity reservations a `NodeClass` may launch into (spec aws-provider 9).
//!
//! Selector terms are resolved once a minute per query; every answer also has the number of instances each
//! reservation has left, which launches and ends count on from until the next answer ([`availability`]).

pub mod availability;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{CapacityReservationSelectorTerm, ReservationMatch};
use karpenter_aws_api::ec2::{CapacityReservation, CapacityReservationQuery, Ec2};
use karpenter_aws_api::{Filter, Result};
use karpenter_model::Clock;

use crate::calls::cache::TtlCache;
use crate::calls::selector::{has_tags, tag_filters};
use availability::Availability;

const FRESH: Duration = Duration::from_mins(1);

/// One call to EC2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Query {
    /// One by one: an unknown id fails the whole call.
    Id(String),
    /// One selector term without an id.
    Term { tags: BTreeMap<String, String>, criteria: Option<ReservationMatch>, owner: Option<String> },
}

impl Query {
    /// An empty term selects nothing; an id makes the rest of its term meaningless.
    fn of(term: &CapacityReservationSelectorTerm) -> Option<Self> {
        if let Some(id) = &term.id {
            return Some(Self::Id(id.clone()));
        }
        let tags = term.tags.clone().unwrap_or_default();
        let (criteria, owner) = (term.instance_match_criteria, term.owner_id.clone());
        let says_something = !tags.is_empty() || criteria.is_some() || owner.is_some();
        says_something.then_some(Self::Term { tags, criteria, owner })
    }

    /// Returns whether the query means this reservation, judged by its description and not by EC2's answer to the query.
    fn means(&self, reservation: &CapacityReservation) -> bool {
        match self {
            Self::Id(id) => reservation.id.as_str() == id,
            Self::Term { tags, criteria, owner } => {
                has_tags(tags, &reservation.tags)
                    && criteria.is_none_or(|wanted| status::criteria(wanted) == reservation.match_criteria)
                    && owner.as_ref().is_none_or(|owner| *owner == reservation.owner)
            }
        }
    }

    fn to_ec2(&self) -> CapacityReservationQuery {
        let mut filters = vec![Filter::new("state", ["active"])];
        let mut ids = Vec::new();
        match self {
            Self::Id(id) => ids.push(id.as_str().into()),
            Self::Term { tags, criteria, owner } => {
                filters.extend(tag_filters(tags));
                let criteria = criteria.map(status::criteria);
                filters.extend(criteria.map(|text| Filter::new("instance-match-criteria", [text])));
                filters.extend(owner.as_ref().map(|owner| Filter::new("owner-id", [owner.as_str()])));
            }
        }
        CapacityReservationQuery { ids, filters }
    }
}

/// Finds reservations and counts what is left of them.
pub struct Reservations {
    ec2: Arc<dyn Ec2>,
    clock: Arc<dyn Clock>,
    answers: TtlCache<Query, Vec<CapacityReservation>>,
    availability: Availability,
}

impl Reservations {
    /// Creates it with nothing known.
    pub fn new(ec2: Arc<dyn Ec2>, clock: Arc<dyn Clock>) -> Self {
        let answers = TtlCache::new(Arc::clone(&clock), FRESH);
        let availability = Availability::new(Arc::clone(&clock));
        Self { ec2, clock, answers, availability }
    }

    /// Remaining instances of each reservation.
    pub fn availability(&self) -> &Availability {
        &self.availability
    }

    /// Every active reservation a `NodeClass` selects, by id.
    ///
    /// # Errors
    /// When EC2 does not answer every query; half an answer would end what is used of the other half.
    pub async fn select(&self, class: &EC2NodeClass) -> Result<Vec<CapacityReservation>> {
        let terms = class.spec.capacity_reservation_selector_terms.iter().flatten();
        self.ask(terms.filter_map(Query::of)).await
    }

    /// The active ones among these reservations, by id.
    ///
    /// # Errors
    /// As [`Reservations::select`].
    pub async fn by_id(&self, ids: impl IntoIterator<Item = String>) -> Result<Vec<CapacityReservation>> {
        self.ask(ids.into_iter().map(Query::Id)).await
    }

    /// Returns whether a reservation is active and no term of the class matches it. False for one that an answer to the terms
    /// has left out, since a search by tags may lack one that a search by id finds, and for one that has ended.
    ///
    /// # Errors
    /// As [`Reservations::select`].
    pub(crate) async fn is_deselected(&self, class: &EC2NodeClass, id: &str) -> Result<bool> {
        let terms = class.spec.capacity_reservation_selector_terms.iter().flatten();
        let queries: Vec<Query> = terms.filter_map(Query::of).collect();
        let found = self.by_id([id.to_owned()]).await?;
        Ok(found.iter().any(|one| !queries.iter().any(|query| query.means(one))))
    }

    async fn ask(&self, queries: impl Iterator<Item = Query>) -> Result<Vec<CapacityReservation>> {
        let now = self.clock.now();
        let mut found = BTreeMap::new();
        for query in queries {
            for reservation in self.answer(query).await? {
                // Answers are reused for a while, and a reservation may have ended since.
                if reservation.ends_at.is_none_or(|end| end > now) {
                    found.insert(reservation.id.clone(), reservation);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    async fn answer(&self, query: Query) -> Result<Vec<CapacityReservation>> {
        if let Some(answer) = self.answers.get(&query) {
            return Ok(answer);
        }
        let answer = match self.ec2.describe_capacity_reservations(&query.to_ec2()).await {
            // A reservation that is gone is like one that was never selected.
            Err(error) if error.is_not_found() && matches!(query, Query::Id(_)) => Vec::new(),
            other => other?,
        };
        for reservation in &answer {
            // Not for an answer that is reused: launches have been subtracted since.
            self.availability.counted(reservation.id.as_str(), reservation.available, reservation.total);
        }
        self.answers.put(query, answer.clone());
        Ok(answer)
    }
}

impl std::fmt::Debug for Reservations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservations").field("availability", &self.availability).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
