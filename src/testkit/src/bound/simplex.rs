//! The linear programme over the columns found so far: revised simplex with a dense inverse.
//!
//! Rows are lower bounds; an upper bound is written with both sides negative. The first rows
//! start from a column each, the others from what they leave unused.

/// Least gain of another step.
const LEAST_GAIN: f64 = 1e-9;
/// Unit by which counts are raised, times up to a thousand.
const PERTURBATION: f64 = 1e-7;
/// Elements smaller than this are taken for zero.
const TINY: f64 = 1e-9;

/// Pods of each row that one machine takes, and its cost.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) cost: f64,
    pub(super) entries: Vec<(usize, f64)>,
}

pub(super) struct Simplex {
    rows: usize,
    columns: Vec<Column>,
    /// Column of each row of the basis.
    basis: Vec<usize>,
    /// Amount that is bought of each row of the basis.
    amounts: Vec<f64>,
    inverse: Vec<f64>,
}

impl Simplex {
    /// Rows with these `counts`, the first of which begin with the columns `starts`.
    pub(super) fn new(starts: &[Column], counts: &[f64]) -> Self {
        let rows = counts.len();
        let mut columns: Vec<Column> =
            (0..rows).map(|row| Column { cost: 0.0, entries: vec![(row, -1.0)] }).collect();
        columns.extend_from_slice(starts);
        let (mut basis, mut amounts, mut inverse) = (Vec::new(), Vec::new(), vec![0.0; rows * rows]);
        for row in 0..rows {
            let start = starts.get(row).map_or(-1.0, |column| column.entries[0].1);
            basis.push(if row < starts.len() { rows + row } else { row });
            // Counts that are all a little different keep steps from gaining nothing, which could go round for ever.
            let apart = 1.0 + PERTURBATION * ((row * 7919 % 1009) as f64 + 1.0);
            amounts.push(counts[row] * apart / start);
            inverse[row * rows + row] = 1.0 / start;
        }
        Self { rows, columns, basis, amounts, inverse }
    }

    pub(super) fn add(&mut self, column: Column) {
        self.columns.push(column);
    }

    /// Returns the value of each row; below zero only where the columns are not bought as cheaply as they could be.
    pub(super) fn duals(&self) -> Vec<f64> {
        let mut duals = vec![0.0; self.rows];
        for (row, column) in self.basis.iter().enumerate() {
            let cost = self.columns[*column].cost;
            if cost != 0.0 {
                let of_row = &self.inverse[row * self.rows..(row + 1) * self.rows];
                duals.iter_mut().zip(of_row).for_each(|(dual, entry)| *dual += cost * entry);
            }
        }
        duals
    }

    /// Buys as cheaply as the columns allow; what that costs.
    pub(super) fn solve(&mut self) -> f64 {
        for _ in 0..50 * self.rows.max(20) {
            let duals = self.duals();
            let gain = |column: &Column| {
                column.entries.iter().map(|(row, entry)| duals[*row] * entry).sum::<f64>() - column.cost
            };
            let gains = self.columns.iter().enumerate().map(|(place, column)| (gain(column), place));
            let Some((gain, place)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            if gain < LEAST_GAIN || !self.pivot(place) {
                break;
            }
        }
        self.basis.iter().zip(&self.amounts).map(|(column, amount)| self.columns[*column].cost * amount).sum()
    }

    /// Takes column `place` into the basis; returns whether that was possible.
    fn pivot(&mut self, place: usize) -> bool {
        let rows = self.rows;
        let mut direction = vec![0.0; rows];
        for (row, entry) in &self.columns[place].entries {
            for (at, slot) in direction.iter_mut().enumerate() {
                *slot += self.inverse[at * rows + row] * entry;
            }
        }
        let ratios = (0..rows).filter(|row| direction[*row] > TINY);
        let ratios = ratios.map(|row| (self.amounts[row].max(0.0) / direction[row], row));
        let least =
            ratios.min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| direction[b.1].total_cmp(&direction[a.1])));
        let Some((step, leaving)) = least else { return false };
        let pivot = direction[leaving];
        let own: Vec<f64> =
            self.inverse[leaving * rows..(leaving + 1) * rows].iter().map(|e| e / pivot).collect();
        for (row, moved) in direction.iter().enumerate() {
            if row == leaving {
                self.inverse[row * rows..(row + 1) * rows].copy_from_slice(&own);
            } else if moved.abs() > TINY {
                let of_row = &mut self.inverse[row * rows..(row + 1) * rows];
                of_row.iter_mut().zip(&own).for_each(|(entry, own)| *entry -= moved * own);
                self.amounts[row] -= moved * step;
            }
        }
        self.amounts[leaving] = step;
        self.basis[leaving] = place;
        true
    }
}
