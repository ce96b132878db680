//! Recording, committing and waiting.

use std::time::Duration;

use crate::device::{Device, nanoseconds, text};
use crate::error::{Result, Status, check};
use crate::ffi;
use crate::handle::{Handle, note_caller};

impl Device {
    /// Starts recording (`iron_commands_begin`).
    pub fn commands(&self) -> Result<Commands> {
        self.commands_options().begin()
    }

    /// Commands with a label or a flush limit of their own.
    pub fn commands_options(&self) -> CommandsOptions<'_> {
        CommandsOptions::new(self)
    }
}

/// Operations being recorded (`iron_commands`). From [`Device::commands`]; what can be recorded is in
/// [`ops`](crate::ops).
///
/// Operations take effect in the order in which they are recorded, commands in the order in which they are committed.
/// They submit what they have by themselves every so often (see [`DeviceOptions`](crate::DeviceOptions)). Dropped
/// without a commit, they run nothing further.
///
/// One thread records at a time, though it need not be the same one throughout: commands can be sent, not shared.
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<ironbridge::Commands>();
/// ```
///
/// A commit ends the recording for good:
///
/// ```compile_fail,E0382
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = ironbridge::Device::open("cpu")?;
/// let mut commands = device.commands()?;
/// let pending = commands.commit()?;
/// commands.flush()?; // gone
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "commands that are not committed do not run"]
pub struct Commands {
    pub(crate) handle: Handle<ffi::iron_commands>,
}

impl Commands {
    /// Submits what is recorded so far and goes on recording (`iron_commands_flush`).
    pub fn flush(&mut self) -> Result<()> {
        // SAFETY: the handle is live.
        check("Commands::flush", unsafe {
            ffi::iron_commands_flush(self.handle.as_ptr())
        })
    }

    /// Submits the rest and ends the recording (`iron_commands_commit`). Does not wait.
    pub fn commit(self) -> Result<Pending> {
        // SAFETY: the handle is live.
        check("Commands::commit", unsafe {
            ffi::iron_commands_commit(self.handle.as_ptr())
        })?;
        Ok(Pending {
            handle: self.handle,
        })
    }

    /// [`commit`](Commands::commit) and [`wait`](Pending::wait) in one (`iron_commands_run`). On the software device
    /// this thread then works itself where it can, as it does in `wait`, and no other thread is woken first, which
    /// takes longer than a small operation.
    ///
    /// # Errors
    /// Those of `wait`.
    pub fn run(self) -> Result<()> {
        // SAFETY: the handle is live.
        check("Commands::run", unsafe {
            ffi::iron_commands_run(self.handle.as_ptr())
        })
    }

    /// What is recorded and submitted so far (`iron_commands_describe`).
    pub fn info(&self) -> Result<CommandsInfo> {
        CommandsInfo::of(&self.handle)
    }

    /// For the functions that record, which the trace ascribes to their caller.
    #[track_caller]
    pub(crate) fn recorder(&mut self) -> *mut ffi::iron_commands {
        note_caller();
        self.handle.as_ptr()
    }
}

/// Committed commands.
///
/// Dropping it does not block: the work runs on, keeps what it needs alive, and a failure is reported by
/// [`Device::sync`].
#[derive(Debug)]
#[must_use = "failures of the device are reported by the wait; without one, by Device::sync"]
pub struct Pending {
    handle: Handle<ffi::iron_commands>,
}

// SAFETY: with a shared reference only the functions that wait and describe can be called, and the header allows
// them from any thread at any time; what it limits to one thread, the recording, ended with the commit.
unsafe impl Sync for Pending {}

impl Pending {
    /// Waits until all of it is complete (`iron_commands_wait`).
    ///
    /// # Errors
    /// The first failure of these commands, the first time ([`Error::Device`](crate::Error::Device),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory)); after that none.
    pub fn wait(&self) -> Result<()> {
        self.wait_native(u64::MAX)
    }

    /// [`wait`](Pending::wait) with a limit; zero polls.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) when the limit passes first; the work goes on and can be waited for
    /// again.
    pub fn wait_timeout(&self, limit: Duration) -> Result<()> {
        self.wait_native(nanoseconds(limit))
    }

    /// Whether all of it is complete. Reports no failure and takes none from [`wait`](Pending::wait).
    pub fn is_complete(&self) -> Result<bool> {
        Ok(matches!(
            self.info()?.state,
            CommandsState::Completed | CommandsState::Failed
        ))
    }

    /// How far it has come (`iron_commands_describe`).
    pub fn info(&self) -> Result<CommandsInfo> {
        CommandsInfo::of(&self.handle)
    }

    /// When the device executed each of its command buffers (`iron_commands_submission`), in the order in which they
    /// were submitted.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) while one of them is not complete.
    pub fn submissions(&self) -> Result<Vec<Submission>> {
        let count = self.info()?.command_buffers;
        (0..count)
            .map(|index| Submission::of(&self.handle, index))
            .collect()
    }

    fn wait_native(&self, timeout: u64) -> Result<()> {
        // SAFETY: the handle is live.
        check("Pending::wait", unsafe {
            ffi::iron_commands_wait(self.handle.as_ptr(), timeout)
        })
    }
}

/// One command buffer, executed (`iron_submission`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submission {
    /// How it ended; `None`: well.
    pub failure: Option<Status>,
    /// Operations in it.
    pub operations: u32,
    /// When the device began and ended it, on the clock of `MTLCommandBuffer`'s `GPUStartTime`, which all devices of a
    /// system share. Zero: it did not run.
    pub start: Duration,
    /// See `start`.
    pub end: Duration,
}

impl Submission {
    fn of(handle: &Handle<ffi::iron_commands>, index: u32) -> Result<Submission> {
        let mut native = ffi::iron_submission {
            size: size_of::<ffi::iron_submission>(),
            ..Default::default()
        };
        // SAFETY: the handle is live, and `native` may be written and starts with its size.
        check("Pending::submissions", unsafe {
            ffi::iron_commands_submission(handle.as_ptr(), index, &mut native)
        })?;
        Ok(Submission {
            failure: (native.status != ffi::IRON_OK).then(|| Status::from_native(native.status)),
            operations: native.operations,
            start: Duration::from_nanos(native.start),
            end: Duration::from_nanos(native.end),
        })
    }
}

/// Where commands are on their way (`iron_commands_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommandsState {
    /// Operations can be added.
    Recording,
    /// Committed, not complete.
    Submitted,
    /// Complete, without a failure.
    Completed,
    /// Complete, with one.
    Failed,
    /// One that this version does not know.
    Unknown,
}

/// Figures of commands (`iron_commands_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandsInfo {
    /// Where they are.
    pub state: CommandsState,
    /// Operations recorded so far.
    pub operations: u32,
    /// Command buffers submitted so far: more than one when the commands flushed themselves.
    pub command_buffers: u32,
    /// How long the device worked, summed over the complete command buffers.
    pub device_time: Duration,
}

impl CommandsInfo {
    fn of(handle: &Handle<ffi::iron_commands>) -> Result<CommandsInfo> {
        let mut info = ffi::iron_commands_info {
            size: size_of::<ffi::iron_commands_info>(),
            ..Default::default()
        };
        // SAFETY: the handle is live, and `info` may be written and starts with its size.
        check("Commands::info", unsafe {
            ffi::iron_commands_describe(handle.as_ptr(), &mut info)
        })?;
        Ok(CommandsInfo {
            state: match info.state {
                ffi::IRON_COMMANDS_RECORDING => CommandsState::Recording,
                ffi::IRON_COMMANDS_SUBMITTED => CommandsState::Submitted,
                ffi::IRON_COMMANDS_COMPLETED => CommandsState::Completed,
                ffi::IRON_COMMANDS_FAILED => CommandsState::Failed,
                _ => CommandsState::Unknown,
            },
            operations: info.operations,
            command_buffers: info.command_buffers,
            device_time: Duration::from_nanos(info.device_time),
        })
    }
}

/// How to start [`Commands`] (`iron_commands_options`). From [`Device::commands_options`].
#[derive(Debug, Clone)]
#[must_use = "options start nothing by themselves"]
pub struct CommandsOptions<'a> {
    device: &'a Device,
    label: Option<String>,
    max_operations: u32,
    activations: ActivationPrecision,
}

/// How exactly a product of weights in blocks has its activations, where it has up to 16 rows of them
/// (`iron_activations`).
///
/// A device may round them for it. Each 32 neighbors then share a scale. Products that have more rows, and those of
/// other weights, never have fewer bits by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ActivationPrecision {
    /// At least 16 bits.
    Float,
    /// 8 bits, where there is a kernel for it: a value is off by at most 1/254 of the largest of its 32. llama.cpp
    /// rounds so on CPUs and NVIDIA's GPUs.
    Bytes,
    /// 8 bits where the device is faster with them.
    #[default]
    Automatic,
}

impl ActivationPrecision {
    const fn native(self) -> ffi::iron_activations {
        match self {
            ActivationPrecision::Float => ffi::IRON_ACTIVATIONS_FLOAT,
            ActivationPrecision::Bytes => ffi::IRON_ACTIVATIONS_BYTES,
            ActivationPrecision::Automatic => ffi::IRON_ACTIVATIONS_AUTOMATIC,
        }
    }
}

impl<'a> CommandsOptions<'a> {
    pub(crate) fn new(device: &'a Device) -> Self {
        CommandsOptions {
            device,
            label: None,
            max_operations: 0,
            activations: ActivationPrecision::Float,
        }
    }

    /// Names the commands in reports and in Apple's tools.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Operations recorded before the commands flush by themselves. Default (or 0): the device's limit. 1 gives every
    /// operation a command buffer of its own. With `u32::MAX` nothing is submitted before a flush or the commit.
    pub fn max_operations(mut self, operations: u32) -> Self {
        self.max_operations = operations;
        self
    }

    /// How exactly products have their activations. Without it: [`Float`](ActivationPrecision::Float).
    pub fn activations(mut self, activations: ActivationPrecision) -> Self {
        self.activations = activations;
        self
    }

    /// Starts recording (`iron_commands_begin`).
    pub fn begin(&self) -> Result<Commands> {
        let label = self.label.as_deref().map(|label| text("label", label));
        let label = label.transpose()?;
        let options = ffi::iron_commands_options {
            size: size_of::<ffi::iron_commands_options>(),
            label: label
                .as_deref()
                .map_or(std::ptr::null(), |label| label.as_ptr()),
            max_operations: self.max_operations,
            activations: self.activations.native(),
        };
        let handle = Handle::create("Device::commands", |commands| {
            // SAFETY: the device is live, the options start with their size and their label outlives the call,
            // `commands` may be written.
            unsafe { ffi::iron_commands_begin(self.device.handle.as_ptr(), &options, commands) }
        })?;
        Ok(Commands { handle })
    }
}
