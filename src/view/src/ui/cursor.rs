//! A selection in a list that changes by itself.

use ratatui::crossterm::event::KeyCode;

/// Selected item, and the part of the list that is on the screen.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<T> {
    /// The list as it was drawn last.
    items: Vec<T>,
    selected: usize,
    first: usize,
    room: usize,
}

impl<T> Default for Cursor<T> {
    fn default() -> Self {
        Self { items: Vec::new(), selected: 0, first: 0, room: 1 }
    }
}

impl<T: PartialEq> Cursor<T> {
    /// Returns the selected item.
    pub(crate) fn selected(&self) -> Option<&T> {
        self.items.get(self.selected)
    }

    /// The line of the selection, and the first line on the screen.
    pub(crate) const fn lines(&self) -> (usize, usize) {
        (self.selected, self.first)
    }

    /// The list is `items`, of which `room` are on the screen: follows the selected item, or stays in place when it has
    /// gone, and keeps it on the screen.
    pub(crate) fn settle(&mut self, items: Vec<T>, room: usize) {
        if let Some(selected) = self.items.get(self.selected)
            // At the top stays at the top: the first of the list is what the user looks at.
            && self.selected > 0
            && let Some(place) = items.iter().position(|item| item == selected)
        {
            self.selected = place;
        }
        self.items = items;
        self.room = room.max(1);
        self.select(self.selected);
    }

    fn select(&mut self, place: usize) {
        self.selected = place.min(self.items.len().saturating_sub(1));
        let last_first = self.items.len().saturating_sub(self.room);
        self.first =
            self.first.clamp((self.selected + 1).saturating_sub(self.room), self.selected).min(last_first);
    }

    /// Moves the selection.
    pub(crate) fn press(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(self.room)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.select(self.selected + self.room),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_stays_with_its_item_and_on_the_screen() {
        let mut cursor = Cursor::default();
        cursor.settle(vec!["a", "b", "c", "d", "e"], 2);
        assert_eq!((cursor.selected(), cursor.lines()), (Some(&"a"), (0, 0)));
        for _ in 0..3 {
            cursor.press(KeyCode::Down);
        }
        assert_eq!((cursor.selected(), cursor.lines()), (Some(&"d"), (3, 2)));
        cursor.settle(vec!["x", "a", "b", "c", "d", "e"], 2);
        assert_eq!((cursor.selected(), cursor.lines()), (Some(&"d"), (4, 3)), "rows above were added");
        cursor.settle(vec!["x", "a"], 2);
        assert_eq!((cursor.selected(), cursor.lines()), (Some(&"a"), (1, 0)), "it has gone");
        cursor.settle(Vec::new(), 2);
        assert_eq!((cursor.selected(), cursor.lines()), (None, (0, 0)));
    }

    #[test]
    fn pages_and_ends() {
        let mut cursor = Cursor::default();
        cursor.settle((0..10).collect(), 4);
        let steps = [(KeyCode::PageDown, 4), (KeyCode::PageDown, 8), (KeyCode::PageUp, 4), (KeyCode::End, 9)];
        for (key, expected) in steps {
            cursor.press(key);
            assert_eq!(cursor.selected(), Some(&expected));
        }
        cursor.press(KeyCode::Home);
        assert_eq!((cursor.selected(), cursor.lines()), (Some(&0), (0, 0)));
    }
}
