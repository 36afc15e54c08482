//! Columns that fit, and their widths.
//!
//! Columns have an order in which they are shown and another in which they are given room. 80 characters take what one
//! cannot do without; what is left over widens columns whose content is longer.

use crate::facts::Shown;
use crate::list::Row;
use crate::order::SortBy;

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Pool,
    Type,
    Zone,
    Capacity,
    Hour,
    Month,
    /// Requested share of a resource, in percent; by the place of the resource among those shown.
    Share(usize),
    /// The same as a bar.
    Bar(usize),
    /// Requested and allocatable amount of a resource.
    Amount(usize),
    /// Value of a label, by its place among those shown.
    Label(usize),
    Pods,
    Age,
    State,
}

impl Kind {
    /// The order that this column decides, if there is one.
    pub(super) const fn order(self) -> Option<SortBy> {
        Some(match self {
            Self::Name => SortBy::Name,
            Self::Pool => SortBy::Pool,
            Self::Type => SortBy::Type,
            Self::Zone => SortBy::Zone,
            Self::Capacity => SortBy::Capacity,
            Self::Hour => SortBy::Price,
            // Cpu and memory are the first of the resources shown, always.
            Self::Share(0) => SortBy::Cpu,
            Self::Share(1) => SortBy::Memory,
            Self::Pods => SortBy::Pods,
            Self::Age => SortBy::Age,
            Self::State => SortBy::State,
            Self::Month | Self::Share(_) | Self::Bar(_) | Self::Amount(_) | Self::Label(_) => return None,
        })
    }
}

/// Width of a bar.
const BAR: usize = 10;

/// A column that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) kind: Kind,
    pub(super) title: String,
    pub(super) width: usize,
}

impl Column {
    /// Numbers end in one line, texts begin in one.
    pub(super) const fn is_number(&self) -> bool {
        matches!(
            self.kind,
            Kind::Hour | Kind::Month | Kind::Share(_) | Kind::Amount(_) | Kind::Pods | Kind::Age
        )
    }
}

/// The columns of a table, in the order in which they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) all: Vec<Column>,
    pub(super) shown: Shown,
}

impl Columns {
    /// The columns for `rows` in `width` characters.
    pub(super) fn new(width: usize, shown: &Shown, rows: &[Row<'_>]) -> Self {
        let mut left = width;
        let mut all: Vec<(usize, Column)> = Vec::new();
        for (place, kind, column_width) in candidates(shown) {
            let needed = column_width + usize::from(!all.is_empty());
            if needed > left {
                // Later columns matter less: nothing takes the room of one that did not fit.
                break;
            }
            left -= needed;
            all.push((place, Column { kind, title: title(kind, shown), width: column_width }));
        }
        all.sort_by_key(|(place, _)| *place);
        let mut all: Vec<Column> = all.into_iter().map(|(_, column)| column).collect();
        let texts = [Kind::State, Kind::Name, Kind::Type, Kind::Zone, Kind::Pool, Kind::Capacity];
        let labels = (0..shown.labels().len()).map(Kind::Label);
        for kind in texts.into_iter().chain(labels) {
            if let Some(column) = all.iter_mut().find(|column| column.kind == kind) {
                let wanted = rows.iter().map(|row| content(kind, row, shown)).max().unwrap_or_default();
                let more = wanted.saturating_sub(column.width).min(left);
                column.width += more;
                left -= more;
            }
        }
        // Bars take what no text needs, each behind the number that it draws.
        for index in 0..2 {
            let number = all.iter().position(|column| column.kind == Kind::Share(index));
            if let Some(number) = number.filter(|_| left > BAR) {
                let bar = Column { kind: Kind::Bar(index), title: String::new(), width: BAR };
                all.insert(number + 1, bar);
                left -= BAR + 1;
            }
        }
        Self { all, shown: shown.clone() }
    }
}

/// Columns in the order in which they get room, each with its place on the screen and its least width.
fn candidates(shown: &Shown) -> Vec<(usize, Kind, usize)> {
    let resources = shown.names();
    let last = 100;
    let mut all = vec![
        (0, Kind::Name, 14),
        (last, Kind::State, 10),
        (2, Kind::Type, 11),
        (5, Kind::Hour, 6),
        (10, Kind::Share(0), 4),
        (12, Kind::Share(1), 4),
        (4, Kind::Capacity, 4),
    ];
    // Columns that the user asks for precede those that all see.
    all.extend((2..resources.len()).map(|index| (10 + 2 * index, Kind::Share(index), 4)));
    all.extend((0..shown.labels().len()).map(|index| (7, Kind::Label(index), 8)));
    all.extend([
        (3, Kind::Zone, 10),
        (last - 1, Kind::Age, 4),
        (last - 2, Kind::Pods, 4),
        (1, Kind::Pool, 10),
        (6, Kind::Month, 8),
        (11, Kind::Amount(0), 11),
        (13, Kind::Amount(1), 13),
    ]);
    all.extend((2..resources.len()).map(|index| (11 + 2 * index, Kind::Amount(index), 9)));
    all
}

fn title(kind: Kind, shown: &Shown) -> String {
    let short = |name: &str| name.rsplit('/').next().unwrap_or(name).to_uppercase();
    let resource = |index: usize| match shown.names()[index].as_str() {
        "memory" => "MEM".to_owned(),
        name => short(name),
    };
    match kind {
        Kind::Name => "NODE".to_owned(),
        Kind::Pool => "POOL".to_owned(),
        Kind::Type => "TYPE".to_owned(),
        Kind::Zone => "ZONE".to_owned(),
        Kind::Capacity => "CAPACITY".to_owned(),
        Kind::Hour => "$/H".to_owned(),
        Kind::Month => "$/MONTH".to_owned(),
        Kind::Share(index) => resource(index).chars().take(3).chain(['%']).collect(),
        Kind::Amount(index) => resource(index),
        Kind::Label(index) => short(&shown.labels()[index]),
        Kind::Bar(_) => String::new(),
        Kind::Pods => "PODS".to_owned(),
        Kind::Age => "AGE".to_owned(),
        Kind::State => "STATE".to_owned(),
    }
}

/// Returns the number of characters that a row needs in a column.
fn content(kind: Kind, row: &Row<'_>, shown: &Shown) -> usize {
    let Row::Machine(machine) = row else {
        return match row {
            Row::Pool { name, .. } if kind == Kind::Name => name.len() + 8,
            Row::Pool { totals, .. } if kind == Kind::State => 12 * totals.by_phase().count(),
            _ => 0,
        };
    };
    match kind {
        Kind::Name => machine.name.len(),
        Kind::Pool => machine.pool.len(),
        Kind::Type => machine.instance_type.len(),
        Kind::Zone => machine.zone.len(),
        Kind::Capacity => machine.capacity.len(),
        Kind::Label(index) => machine.label(&shown.labels()[index]).map_or(0, str::len),
        Kind::State => {
            let why = machine.state.why;
            machine.state.phase.as_str().len() + if why.is_empty() { 0 } else { 2 + why.len() }
        }
        _ => 0,
    }
}
