//! What one run of a template may still take. Everything that makes a value, copies or compares asks here first.

use std::cell::Cell;
use std::rc::Rc;

use super::Failure;
use super::value::{Text, Value};
use crate::llama::chat::limits::{ChatTemplateLimit, ChatTemplateLimits};

/// Bytes that are copied or compared in one step.
const STEP_BYTES: u64 = 64;

/// As many as one more piece of a text takes time, however short it is.
const PIECE_BYTES: usize = 16;

/// What an allocation takes beside the bytes that are asked for, with those of the counts of an [`Rc`].
const ALLOCATION_BYTES: usize = 48;

#[derive(Debug)]
pub struct Budget {
    pub limits: ChatTemplateLimits,
    /// Bytes of memory that are taken.
    taken: Cell<usize>,
    /// In bytes, of which [`STEP_BYTES`] are a step.
    worked: Cell<u64>,
}

impl Budget {
    pub fn new(limits: ChatTemplateLimits) -> Rc<Budget> {
        Rc::new(Budget {
            limits,
            taken: Cell::new(0),
            worked: Cell::new(0),
        })
    }

    pub fn steps(&self, count: usize) -> Result<(), Failure> {
        self.work((count as u64).saturating_mul(STEP_BYTES))
    }

    /// So many bytes are copied, compared or searched.
    pub fn bytes(&self, count: usize) -> Result<(), Failure> {
        self.work(count as u64)
    }

    fn work(&self, bytes: u64) -> Result<(), Failure> {
        let worked = self.worked.get().saturating_add(bytes);
        self.worked.set(worked);
        match worked / STEP_BYTES > self.limits.steps {
            true => Err(Failure::Limit(ChatTemplateLimit::Steps)),
            false => Ok(()),
        }
    }

    /// Takes memory for an allocation of this many bytes.
    pub fn take(self: &Rc<Self>, bytes: usize) -> Result<Charge, Failure> {
        let mut charge = Charge {
            budget: self.clone(),
            bytes: 0,
        };
        charge.grow(bytes.saturating_add(ALLOCATION_BYTES))?;
        Ok(charge)
    }

    /// Levels of values in one another.
    pub fn depth(&self, levels: usize) -> Result<u32, Failure> {
        match levels > self.limits.nesting {
            true => Err(Failure::Limit(ChatTemplateLimit::Nesting)),
            false => Ok(levels as u32),
        }
    }

    pub fn text(self: &Rc<Self>, text: &str) -> Result<Value, Failure> {
        let mut builder = TextBuilder::new(self)?;
        builder.push(text)?;
        Ok(builder.finish())
    }
}

/// Memory that is taken until it is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Charge {
    pub fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let taken = self.budget.taken.get().saturating_add(bytes);
        if taken > self.budget.limits.memory {
            return Err(Failure::Limit(ChatTemplateLimit::Memory));
        }
        self.budget.taken.set(taken);
        self.bytes += bytes;
        Ok(())
    }

    pub fn shrink(&mut self, bytes: usize) {
        self.budget.taken.set(self.budget.taken.get() - bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.taken.set(self.budget.taken.get() - self.bytes);
    }
}

/// A text in the making.
#[derive(Debug)]
pub struct TextBuilder {
    text: String,
    charge: Charge,
}

impl TextBuilder {
    pub fn new(budget: &Rc<Budget>) -> Result<TextBuilder, Failure> {
        // The string and what counts its references.
        let charge = budget.take(size_of::<Text>() + ALLOCATION_BYTES)?;
        Ok(TextBuilder {
            text: String::new(),
            charge,
        })
    }

    pub fn push(&mut self, text: &str) -> Result<(), Failure> {
        self.charge.grow(text.len())?;
        self.charge.budget.bytes(text.len() + PIECE_BYTES)?;
        self.text.push_str(text);
        Ok(())
    }

    pub fn push_char(&mut self, character: char) -> Result<(), Failure> {
        self.push(character.encode_utf8(&mut [0; 4]))
    }

    pub fn repeat(&mut self, text: &str, count: usize) -> Result<(), Failure> {
        let bytes = text.len().saturating_mul(count);
        self.charge.grow(bytes)?;
        self.charge.budget.bytes(bytes)?;
        if bytes > 0 {
            self.text.reserve_exact(bytes);
            let start = self.text.len();
            self.text.push_str(text);
            let mut written = text.len();
            // Twice as much each time: a text of one byte may be wanted millions of times.
            while written < bytes {
                let more = written.min(bytes - written);
                self.text.extend_from_within(start..start + more);
                written += more;
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Value {
        Value::Text(Rc::new(Text::new(self.text, self.charge)))
    }
}
