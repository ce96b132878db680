//! The live screen.

use std::error::Error;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{self, Cell, Paragraph, Table, TableState};
use ratatui::{Frame, text::Text};

use super::Column;
use super::reading::{HEADERS, Reading, Row, RowKey, WIDTHS, columns};
use crate::terminal::{bytes, printable};

/// Which column of the table is sorted by.
const SORTS: [(Column, usize); 8] = [
    (Column::Pid, 0),
    (Column::Active, 3),
    (Column::Cached, 4),
    (Column::Peak, 5),
    (Column::Delta, 6),
    (Column::Rate, 7),
    (Column::Rss, 8),
    (Column::Age, 9),
];

struct Screen {
    reading: Reading,
    sort: Column,
    selected: TableState,
    /// The selected row, which moves when the others do.
    followed: Option<RowKey>,
    /// What the last key did, or why a reading failed.
    message: String,
}

pub fn run(interval: Duration, sort: Column) -> Result<(), Box<dyn Error>> {
    let mut screen = Screen::new(Reading::take(None)?, sort);
    let mut terminal = ratatui::try_init()?;
    let result = screen.follow(&mut terminal, interval);
    ratatui::try_restore()?;
    result
}

impl Screen {
    fn new(reading: Reading, sort: Column) -> Screen {
        let mut screen = Screen {
            reading,
            sort,
            selected: TableState::new().with_selected(0),
            followed: None,
            message: String::new(),
        };
        screen.sort(sort);
        screen.follow_selected();
        screen
    }

    fn follow(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        interval: Duration,
    ) -> Result<(), Box<dyn Error>> {
        let mut refresh = Instant::now() + interval;
        loop {
            terminal.draw(|frame| self.draw(frame))?;
            if event::poll(refresh.saturating_duration_since(Instant::now()))? {
                if let Event::Key(key) = event::read()?
                    && key.kind == KeyEventKind::Press
                {
                    let interrupt = key.modifiers.contains(KeyModifiers::CONTROL)
                        && key.code == KeyCode::Char('c');
                    if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                        return Ok(());
                    }
                    self.press(key.code);
                }
                continue;
            }
            refresh = Instant::now() + interval;
            self.refresh();
        }
    }

    fn refresh(&mut self) {
        match Reading::take(Some(&self.reading)) {
            Ok(reading) => {
                if let Some(skipped) = reading.skipped().first() {
                    self.message = printable(skipped).into_owned();
                }
                self.reading = reading;
            }
            Err(error) => self.message = error.to_string(),
        }
        self.sort(self.sort);
    }

    /// The selection goes where its row goes. When that is gone, it stays where it is and follows the row that is there
    /// now.
    fn sort(&mut self, column: Column) {
        self.sort = column;
        self.reading.sort(column);
        match self.followed.and_then(|key| self.reading.find(key)) {
            Some(place) => self.selected.select(Some(place)),
            None => self.follow_selected(),
        }
    }

    fn follow_selected(&mut self) {
        let last = self.reading.rows.len().saturating_sub(1);
        let place = self.selected.selected().unwrap_or(0).min(last);
        self.selected.select(Some(place));
        self.followed = self.reading.rows.get(place).map(Row::key);
    }

    fn press(&mut self, key: KeyCode) {
        self.message.clear();
        match key {
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected.select_next();
                self.follow_selected();
            }
            KeyCode::Up | KeyCode::Char('k') => {
                self.selected.select_previous();
                self.follow_selected();
            }
            KeyCode::Char('s') => {
                let place = SORTS.iter().position(|(column, _)| *column == self.sort);
                self.sort(SORTS[(place.unwrap_or(0) + 1) % SORTS.len()].0);
            }
            KeyCode::Char('b') => self.apply("baseline set", false, false),
            KeyCode::Char('B') => self.apply("baseline set", true, false),
            KeyCode::Char('r') => self.apply("baseline set, peak reset", false, true),
            KeyCode::Char('R') => self.apply("baseline set, peak reset", true, true),
            _ => {}
        }
    }

    /// Sets the baseline of the selected row or of all, and resets peaks too if asked.
    fn apply(&mut self, done: &str, all: bool, peak: bool) {
        let chosen = self.selected.selected();
        let rows = self.reading.rows.iter().enumerate();
        let mut message = String::from("no device is selected");
        for (_, row) in rows.filter(|(index, _)| all || Some(*index) == chosen) {
            let result = row.device.set_baseline().and_then(|()| match peak {
                true => row.device.reset_peak(),
                false => Ok(()),
            });
            message = match result {
                Ok(()) if all => format!("{done} for all"),
                Ok(()) => format!("{done} for {}", row.pid),
                Err(error) => error.to_string(),
            };
        }
        self.message = message;
        self.refresh();
    }

    fn draw(&mut self, frame: &mut Frame) {
        let [title, table, message, keys] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());

        let processes = self.reading.process_count();
        let plural = if processes == 1 { "" } else { "es" };
        let summary = format!(
            "ironbridge: {processes} process{plural}, {} active, {} cached",
            bytes(self.reading.active_bytes()),
            bytes(self.reading.cached_bytes())
        );
        frame.render_widget(Line::from(summary).style(Modifier::BOLD), title);

        let shown = columns(table.width);
        let sorted = SORTS.iter().find(|(column, _)| *column == self.sort);
        let headers = shown.iter().map(|&index| {
            let mark = match sorted.is_some_and(|(_, at)| *at == index) {
                true => "▼",
                false => "",
            };
            cell(index, format!("{}{mark}", HEADERS[index]))
        });
        let rows = self.reading.rows.iter().map(|row| {
            let cells = row.cells();
            widgets::Row::new(shown.iter().map(|&index| cell(index, cells[index].clone())))
        });
        if self.reading.rows.is_empty() {
            let text = "No process of yours has a device of ironbridge open.";
            frame.render_widget(Paragraph::new(text), table);
        } else {
            let widths = shown.iter().map(|&index| Constraint::Length(WIDTHS[index]));
            let widget = Table::new(rows, widths)
                .header(widgets::Row::new(headers).style(Modifier::BOLD))
                .row_highlight_style(Modifier::REVERSED);
            frame.render_stateful_widget(widget, table, &mut self.selected);
        }
        frame.render_widget(Line::from(self.message.as_str()), message);
        let help = "b baseline  r reset (B, R: all)  s sort  ↑↓ select  q quit";
        frame.render_widget(Line::from(help).style(Modifier::DIM), keys);
    }
}

/// Figures end where their column ends, names start where it starts.
fn cell(index: usize, text: String) -> Cell<'static> {
    let text = Text::from(text);
    Cell::new(match index {
        1 | 2 => text.left_aligned(),
        _ => text.right_aligned(),
    })
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// The screen's lines, of this process's devices among others'.
    fn draw(screen: &mut Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).expect("a terminal in memory");
        terminal
            .draw(|frame| screen.draw(frame))
            .expect("a terminal in memory");
        let buffer = terminal.backend().buffer();
        let lines = buffer.content.chunks(120);
        lines
            .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n")
            .collect()
    }

    /// Alone: it looks at all devices of this process.
    #[test]
    #[serial_test::serial]
    fn the_screen_shows_devices_and_takes_keys() {
        let device = ironbridge::Device::open("cpu").expect("there is always a cpu");
        let held = device.buffer::<u8>(3 << 20).expect("3 MiB");
        let mut screen = Screen::new(Reading::take(None).expect("readable"), Column::Active);
        let pid = std::process::id();
        let own = |screen: &Screen| {
            let mut rows = screen.reading.rows.iter();
            rows.position(|row| row.pid == u64::from(pid))
                .expect("this process has a row")
        };
        screen.selected.select(Some(own(&screen)));
        screen.follow_selected();
        let shown = draw(&mut screen);
        for part in [&pid.to_string(), "+3.0 MiB", "ACTIVE", "q quit", "process"] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }

        screen.press(KeyCode::Char('r'));
        let shown = draw(&mut screen);
        assert!(shown.contains("baseline set, peak reset for"), "{shown}");
        assert!(shown.contains("+0 B"), "{shown}");
        drop(held); // takes up the request
        drop(device.buffer::<u8>(1 << 10).expect("1 KiB"));
        screen.refresh();
        let row = &screen.reading.rows[own(&screen)];
        assert_eq!(row.device.delta_bytes(), -(3 << 20));
        assert!(row.device.peak_bytes < 3 << 20, "{row:?}", row = row.device);

        screen.press(KeyCode::Char('s'));
        assert_eq!(screen.sort, Column::Cached);
        for _ in 0..SORTS.len() {
            screen.press(KeyCode::Char('s'));
            assert_eq!(screen.selected.selected(), Some(own(&screen)));
            draw(&mut screen);
        }
        assert_eq!(screen.sort, Column::Cached);
    }
}
