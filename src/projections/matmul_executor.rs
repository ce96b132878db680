//! Matrix multiplication over host slices: a drop-in for code that keeps its data on the host.

use once_cell::sync::OnceCell;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result, Status};
use crate::memory::Category;
use crate::ops::Matmul;

/// Multiplies matrices that are ordinary slices, on a device.
///
/// Each call is one submission over three buffers from the device's pool, waited for; sizes travel with the command and
/// not in buffers. It may be called from any number of threads at once, and leaves nothing behind.
///
/// ```
/// use ironbridge::{Device, MatmulExecutor};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let executor = MatmulExecutor::on(Device::open("cpu")?);
/// let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 × 3
/// let b = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]; // 3 × 2
/// let mut c = [0.0; 4];
/// executor.matmul_f32(&a, &b, &mut c, 2, 3, 2)?;
/// assert_eq!(c, [4.0, 5.0, 10.0, 11.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MatmulExecutor {
    device: OnceCell<Device>,
}

impl MatmulExecutor {
    /// An executor on the default device, which is opened by the first call that needs it, so that this can initialise
    /// a `static`. A device that cannot be opened fails that call and is tried again by the next one.
    pub const fn new() -> MatmulExecutor {
        MatmulExecutor {
            device: OnceCell::new(),
        }
    }

    /// An executor on `device`.
    pub const fn on(device: Device) -> MatmulExecutor {
        MatmulExecutor {
            device: OnceCell::with_value(device),
        }
    }

    /// The device, opened if it is not yet.
    pub fn device(&self) -> Result<&Device> {
        self.device.get_or_try_init(|| Device::open("default"))
    }

    /// `c = a b`, all row-major: `a` is `m × k`, `b` is `k × n`, `c` is `m × n`. Returns when `c` is filled.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a size is zero or a slice is not as long as its shape says,
    /// [`Error::OutOfMemory`], [`Error::Device`]. `c` is then as it was.
    #[track_caller]
    pub fn matmul_f32(
        &self,
        a: &[f32],
        b: &[f32],
        c: &mut [f32],
        m: usize,
        k: usize,
        n: usize,
    ) -> Result<()> {
        check_shape("a", a, "m × k", m, k)?;
        check_shape("b", b, "k × n", k, n)?;
        check_shape("c", c, "m × n", m, n)?;
        let device = self.device()?;
        let scratch = device.buffer_options().category(Category::Scratch).pooled();
        let a = scratch.create_from(a)?;
        let b = scratch.create_from(b)?;
        let product: Buffer<f32> = scratch.create(c.len())?;

        let mut commands = device.commands_options().label("matmul_f32").begin()?;
        commands.matmul(&Matmul::new(
            a.matrix(m, k),
            b.matrix(k, n),
            product.matrix(m, n),
        ))?;
        commands.run()?;
        product.read_into(c)
    }
}

fn check_shape(
    name: &str,
    elements: &[f32],
    shape: &str,
    rows: usize,
    columns: usize,
) -> Result<()> {
    if rows > 0 && columns > 0 && rows.checked_mul(columns) == Some(elements.len()) {
        return Ok(());
    }
    Err(Error::new(
        "MatmulExecutor::matmul_f32",
        Status::Shape,
        format!(
            "{name}: {} elements are not {shape} = {rows} × {columns}",
            elements.len()
        ),
    ))
}
