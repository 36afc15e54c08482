//! A fixed-size set of small integers, one bit each: the currency of every filter in the planner.

use std::marker::PhantomData;

use crate::index::Ix;

/// A set of positions of type `I` below the length it was made for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits<I> {
    words: Vec<u64>,
    positions: PhantomData<I>,
}

impl<I> Default for Bits<I> {
    fn default() -> Self {
        Self { words: Vec::new(), positions: PhantomData }
    }
}

impl<I: Ix> Bits<I> {
    /// The empty set over `len` indices.
    pub(crate) fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], positions: PhantomData }
    }

    /// The full set over `len` indices.
    pub(crate) fn all(len: usize) -> Self {
        let mut bits = Self { words: vec![u64::MAX; len.div_ceil(64)], positions: PhantomData };
        // Bits from `len` on stay clear, because equality, `len` and `iter` look at whole words.
        if let (Some(last), partial @ 1..) = (bits.words.last_mut(), len % 64) {
            *last = (1 << partial) - 1;
        }
        bits
    }

    /// Adds `index`, growing the set if needed.
    pub(crate) fn insert(&mut self, index: I) {
        let index = index.get();
        let word = index / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (index % 64);
    }

    /// Drops `index`.
    pub(crate) fn remove(&mut self, index: I) {
        let index = index.get();
        if let Some(word) = self.words.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Returns whether `index` is in the set.
    pub(crate) fn contains(&self, index: I) -> bool {
        let index = index.get();
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Returns whether any index of `range` is in the set.
    pub(crate) fn any_in(&self, range: std::ops::Range<I>) -> bool {
        (range.start.get()..range.end.get()).any(|index| self.contains(I::new(index)))
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Becomes what is in both `a` and `b`.
    pub(crate) fn become_both(&mut self, a: &Self, b: &Self) {
        self.words.clear();
        self.words.extend(a.words.iter().zip(&b.words).map(|(a, b)| a & b));
    }

    /// Becomes what is in `a` or `b`.
    pub(crate) fn become_either(&mut self, a: &Self, b: &Self) {
        self.words.clone_from(&a.words);
        self.unite(b);
    }

    /// Keeps what is in `other` too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        // Sets grow as positions are inserted, so `other` may have fewer words: it contains nothing beyond
        // them.
        let common = self.words.len().min(other.words.len());
        self.words[common..].fill(0);
        for (word, keep) in self.words.iter_mut().zip(&other.words) {
            *word &= keep;
        }
    }

    /// The least index from `from` to below `len` that is in none of `sets`.
    pub(crate) fn next_outside(sets: &[&Self], from: I, len: usize) -> Option<I> {
        let from = from.get();
        let mut word = from / 64;
        let mut ahead = u64::MAX << (from % 64);
        while word * 64 < len {
            let taken = sets.iter().fold(0, |taken, set| taken | set.words.get(word).copied().unwrap_or(0));
            let free = !taken & ahead;
            if free != 0 {
                let index = word * 64 + free.trailing_zeros() as usize;
                // The last word has positions beyond `len`, which no set contains.
                return (index < len).then(|| I::new(index));
            }
            (word, ahead) = (word + 1, u64::MAX);
        }
        None
    }

    /// The least index of the set from `from` on that is not in `other`.
    pub(crate) fn next_without(&self, other: &Self, from: I) -> Option<I> {
        let from = from.get();
        let mut ahead = u64::MAX << (from % 64);
        for (word, own) in self.words.iter().enumerate().skip(from / 64) {
            let left = own & ahead & !other.words.get(word).copied().unwrap_or(0);
            if left != 0 {
                return Some(I::new(word * 64 + left.trailing_zeros() as usize));
            }
            ahead = u64::MAX;
        }
        None
    }

    /// Adds what is in `other`.
    pub(crate) fn unite(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Adds what is in `a` and not in `b`.
    pub(crate) fn unite_difference(&mut self, a: &Self, b: &Self) {
        if a.words.len() > self.words.len() {
            self.words.resize(a.words.len(), 0);
        }
        let without = b.words.iter().copied().chain(std::iter::repeat(0));
        for ((word, more), less) in self.words.iter_mut().zip(&a.words).zip(without) {
            *word |= more & !less;
        }
    }

    /// Drops what is in `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (word, less) in self.words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
    }

    /// Returns the bits set in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.intersect(other);
        both
    }

    /// Returns whether the two sets have an index in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Returns whether every index of the set is in `other`.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let beyond = |(word, own): (usize, &u64)| own & !other.words.get(word).copied().unwrap_or(0) != 0;
        !self.words.iter().enumerate().any(beyond)
    }

    /// Number of indices.
    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Indices in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = I> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                // Clears the lowest bit that is set. Of zero it leaves zero, whose 64 trailing zeros end the
                // iteration.
                rest &= rest.wrapping_sub(1);
                (bit < 64).then(|| I::new(index * 64 + bit))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(indices: &[usize]) -> Bits<usize> {
        let mut bits = Bits::none(130);
        for index in indices {
            bits.insert(*index);
        }
        bits
    }

    #[test]
    fn behaves_like_a_set() {
        let (a, b) = (of(&[0, 63, 64, 129]), of(&[63, 128, 129]));
        assert_eq!(a.and(&b).iter().collect::<Vec<_>>(), [63, 129]);
        let mut union = a.clone();
        union.unite(&b);
        assert_eq!(union.iter().collect::<Vec<_>>(), [0, 63, 64, 128, 129]);
        assert!(a.meets(&b) && !a.meets(&of(&[1])));
        assert!(a.and(&b).is_within(&a) && !a.is_within(&b) && !a.is_within(&Bits::default()));
        let mut both = of(&[7]);
        both.become_both(&a, &b);
        assert_eq!(both, a.and(&b));
        let mut either = of(&[7]);
        either.become_either(&a, &b);
        assert_eq!(either, union);
        both.clear();
        assert!(both.is_empty());
        assert!(a.any_in(64..66) && !a.any_in(65..129));
        let mut difference = a.clone();
        difference.subtract(&b);
        assert_eq!(difference, of(&[0, 64]));
        let mut more = of(&[1, 63]);
        more.unite_difference(&a, &b);
        assert_eq!(more, of(&[0, 1, 63, 64]));
        let mut less = a;
        less.remove(64);
        assert!(!less.contains(64) && less.contains(63) && !less.contains(10_000));
    }

    #[test]
    fn the_next_index_outside_skips_every_set() {
        let mut low = Bits::default();
        (0..64).for_each(|index| low.insert(index));
        let sets = [&low, &of(&[64, 129]), &of(&[66])];
        let table =
            [(0, Some(65)), (65, Some(65)), (66, Some(67)), (128, Some(128)), (129, None), (900, None)];
        for (from, expected) in table {
            assert_eq!(Bits::next_outside(&sets, from, 130), expected, "from {from}");
        }
        assert_eq!(Bits::next_outside(&sets, 129, 131), Some(130));
    }

    #[test]
    fn the_next_member_skips_the_other_set() {
        let members = of(&[0, 5, 63, 64, 129]);
        let other = of(&[5, 64]);
        let table =
            [(0, Some(0)), (1, Some(63)), (64, Some(129)), (129, Some(129)), (130, None), (900, None)];
        for (from, expected) in table {
            assert_eq!(members.next_without(&other, from), expected, "from {from}");
        }
    }

    #[test]
    fn full_sets_end_at_their_length() {
        for len in [0, 1, 63, 64, 65, 128] {
            assert_eq!(Bits::<usize>::all(len).iter().count(), len);
            assert_eq!(Bits::<usize>::all(len).is_empty(), len == 0);
        }
    }
}
