//! Functions of the graphics stages, which this device does not run: they are taken out, and their names kept for who
//! asks for one.

use super::Rewriter;
use crate::msl::error::Error;

/// A function that was taken out.
pub struct Skipped {
    /// `vertex`, `fragment` and so on.
    pub stage: &'static str,
    pub name: String,
}

const KEYWORDS: [&str; 2] = ["vertex", "fragment"];
const ATTRIBUTES: [&str; 5] = ["vertex", "fragment", "object", "mesh", "intersection"];

impl Rewriter<'_> {
    pub fn skip_graphics(&mut self) -> Result<Vec<Skipped>, Error> {
        let mut marks: Vec<(usize, &'static str)> = Vec::new();
        for (at, attribute) in self.attributes.all() {
            let stage = ATTRIBUTES.iter().find(|stage| **stage == attribute.name);
            marks.extend(stage.map(|stage| (at, *stage)));
        }
        for index in 0..self.len() {
            let stage = KEYWORDS.iter().find(|stage| **stage == self.text(index));
            if let Some(stage) = stage.filter(|_| self.begins_function(index)) {
                marks.push((index, stage));
            }
        }
        marks.sort_unstable();
        let mut skipped = Vec::new();
        for (mark, stage) in marks {
            self.check_work()?;
            let declarator = self.declarator(mark)?;
            let start = (0..mark)
                .rev()
                .find(|&before| matches!(self.text(before), ";" | "{" | "}"))
                .map_or(0, |before| before + 1);
            let end = match self.text(declarator.end) {
                "{" => self.closing(declarator.end),
                _ => (declarator.end..self.len())
                    .find(|&index| self.text(index) == ";")
                    .ok_or_else(|| self.error(mark, "this function does not end"))?,
            };
            self.count_steps(end - start);
            self.attributes.forget(start..end + 1);
            self.erase(start..end + 1);
            skipped.push(Skipped {
                stage,
                name: declarator.name,
            });
        }
        Ok(skipped)
    }
}
