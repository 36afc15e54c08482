//! Choices of the user, and how keys change them.
//!
//! A selection is the thing that is selected, not its line: it stays where it is while rows come, go and move.

mod cursor;

use std::sync::Arc;

use karpenter_model::PodKey;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::details::Subject;
use crate::filter::Filter;
use crate::list::{Choice, Id};
use crate::machine;
use crate::order::Sort;
use crate::scene::Scene;

pub(crate) use cursor::Cursor;

/// Page on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Page {
    /// All machines.
    #[default]
    Machines,
    /// One machine, by its name.
    Machine(Arc<str>),
    /// All pods that wait.
    Waiting,
    /// One waiting pod.
    Pod(PodKey),
    /// The objects behind the page before it, as they are stored.
    Stored(Box<Self>),
    /// The plan of the cluster.
    Plan,
    /// Troubles, in full.
    Troubles,
    /// The keys.
    Help,
}

/// Action of the loop after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Draw again.
    Draw,
    /// End.
    Quit,
}

/// Choices of the user.
#[derive(Clone, Debug, Default)]
pub struct Ui {
    page: Page,
    choice: Choice,
    /// The filter that is being typed.
    typed: Option<String>,
    pub(crate) machines: Cursor<Id>,
    pub(crate) pods: Cursor<PodKey>,
    /// The first line of a page that is longer than the screen.
    scrolled: usize,
}

impl Ui {
    /// The list of machines in this order, with this filter, folded by pool or not.
    pub fn new(sort: Sort, filter: Filter, by_pool: bool) -> Self {
        Self { choice: Choice { sort, filter, by_pool, ..Choice::default() }, ..Self::default() }
    }

    pub(crate) const fn page(&self) -> &Page {
        &self.page
    }

    pub(crate) const fn choice(&self) -> &Choice {
        &self.choice
    }

    pub(crate) fn typed(&self) -> Option<&str> {
        self.typed.as_deref()
    }

    /// The first of `lines` lines to show where there is room for `room`.
    pub(crate) fn scroll_within(&mut self, lines: usize, room: usize) -> usize {
        self.scrolled = self.scrolled.min(lines.saturating_sub(room));
        self.scrolled
    }

    /// Returns the subject of the open page, for which more has to be requested.
    pub(crate) fn subject(&self, scene: &Scene<'_>) -> Option<Subject> {
        subject(&self.page, scene)
    }

    /// A key was pressed, on the screen that was drawn last.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                _ => Wish::Draw,
            };
        }
        if self.typed.is_some() {
            self.type_filter(key.code);
            return Wish::Draw;
        }
        match (key.code, &self.page) {
            (KeyCode::Char('q'), _) => return Wish::Quit,
            (KeyCode::Char('?'), _) => self.open(Page::Help),
            (KeyCode::Char('!'), _) => self.open(Page::Troubles),
            (KeyCode::Char('w'), Page::Machines) => self.open(Page::Waiting),
            (KeyCode::Char('p'), Page::Machines) => self.open(Page::Plan),
            (KeyCode::Char('y'), page @ (Page::Machine(_) | Page::Pod(_))) => {
                self.open(Page::Stored(Box::new(page.clone())));
            }
            (KeyCode::Esc | KeyCode::Backspace, _) => self.back(),
            (code, Page::Machines) => self.press_on_machines(code),
            (KeyCode::Enter | KeyCode::Right, Page::Waiting) => {
                if let Some(key) = self.pods.selected().cloned() {
                    self.open(Page::Pod(key));
                }
            }
            (code, Page::Waiting) => self.pods.press(code),
            (code, _) => self.scroll(code),
        }
        Wish::Draw
    }

    fn press_on_machines(&mut self, code: KeyCode) {
        match (code, self.machines.selected().cloned()) {
            (KeyCode::Char('/'), _) => self.typed = Some(self.choice.filter.to_string()),
            (KeyCode::Char('s'), _) => self.choice.sort.by = self.choice.sort.by.next(),
            (KeyCode::Char('r'), _) => self.choice.sort.reversed = !self.choice.sort.reversed,
            (KeyCode::Char('f'), _) => {
                self.choice.by_pool = !self.choice.by_pool;
                self.choice.unfolded.clear();
            }
            (KeyCode::Enter | KeyCode::Right | KeyCode::Left, Some(Id::Pool(name))) => {
                // Enter goes back and forth, the arrows each one way.
                let unfolded = self.choice.unfolded.contains(&name);
                if unfolded && code != KeyCode::Right {
                    self.choice.unfolded.remove(&name);
                } else if code != KeyCode::Left {
                    self.choice.unfolded.insert(name);
                }
            }
            (KeyCode::Enter | KeyCode::Right, Some(Id::Machine(name))) => self.open(Page::Machine(name)),
            _ => self.machines.press(code),
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.typed else { return };
        match code {
            KeyCode::Enter => self.typed = None,
            KeyCode::Esc => {
                self.typed = None;
                self.choice.filter = Filter::default();
            }
            KeyCode::Char(letter) => {
                typed.push(letter);
                self.choice.filter = Filter::new(typed);
            }
            KeyCode::Backspace => {
                typed.pop();
                self.choice.filter = Filter::new(typed);
            }
            _ => {}
        }
    }

    fn open(&mut self, page: Page) {
        self.scrolled = 0;
        self.page = page;
    }

    fn back(&mut self) {
        let page = match &self.page {
            Page::Pod(_) => Page::Waiting,
            Page::Stored(of) => Page::clone(of),
            Page::Machines => {
                self.choice.filter = Filter::default();
                Page::Machines
            }
            Page::Machine(_) | Page::Waiting | Page::Plan | Page::Troubles | Page::Help => Page::Machines,
        };
        self.open(page);
    }

    fn scroll(&mut self, code: KeyCode) {
        self.scrolled = match code {
            KeyCode::Up | KeyCode::Char('k') => self.scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled + 1,
            KeyCode::PageUp => self.scrolled.saturating_sub(10),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scrolled + 10,
            KeyCode::Home | KeyCode::Char('g') => 0,
            // Brought back to the last line when the page is drawn.
            KeyCode::End | KeyCode::Char('G') => usize::MAX,
            KeyCode::Left => return self.back(),
            _ => self.scrolled,
        };
    }
}

/// Returns the subject of `page`, for which more has to be requested.
fn subject(page: &Page, scene: &Scene<'_>) -> Option<Subject> {
    match page {
        Page::Machine(name) => {
            let machines = scene.machines();
            let machine = machine::find(&machines, name)?;
            Some(Subject::Machine {
                node: machine.node.map(|_| Arc::clone(&machine.name)),
                claim: machine.claim.map(|(claim, _)| claim.into()),
            })
        }
        Page::Pod(key) => Some(Subject::Pod(key.clone())),
        Page::Stored(of) => Some(Subject::Stored(Box::new(subject(of, scene)?))),
        Page::Plan => Some(Subject::Plan),
        Page::Machines | Page::Waiting | Page::Troubles | Page::Help => None,
    }
}
