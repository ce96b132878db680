//! Gives pages of files back while the next ones are copied.

use std::ops::Range;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use crate::llama::files::mapped_file::MappedFile;

/// A thread that forgets pages in the order in which it is told to. It is done when this goes.
pub(crate) struct Forgetter(Option<(SyncSender<Pages>, JoinHandle<()>)>);

struct Pages {
    file: MappedFile,
    bytes: Range<u64>,
}

impl Forgetter {
    pub fn new() -> Forgetter {
        // Whoever copies faster waits, so that no more is resident than what two steps copy.
        let (sender, receiver) = mpsc::sync_channel::<Pages>(0);
        let forget = move || {
            receiver
                .iter()
                .for_each(|pages| pages.file.forget(pages.bytes))
        };
        let thread = thread::Builder::new().spawn(forget);
        Forgetter(thread.ok().map(|thread| (sender, thread)))
    }

    /// Forgets these bytes of a file soon; at once where there is no thread.
    pub fn forget(&self, file: &MappedFile, bytes: Range<u64>) {
        let file = file.clone();
        let unsent = match &self.0 {
            Some((sender, _)) => sender
                .send(Pages { file, bytes })
                .err()
                .map(|error| error.0),
            None => Some(Pages { file, bytes }),
        };
        if let Some(pages) = unsent {
            pages.file.forget(pages.bytes);
        }
    }
}

impl Drop for Forgetter {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
