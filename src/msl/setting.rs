//! Values for function constants, as MTLFunctionConstantValues holds them.

/// A value for the function constant of a name, or of an index when there is no name.
#[cfg_attr(
    not(feature = "msl"),
    expect(dead_code, reason = "native kernels have no function constants")
)]
pub struct Setting<'a> {
    pub name: Option<&'a str>,
    pub index: u32,
    /// An MTLDataType.
    pub data_type: u32,
    pub bytes: [u8; 32],
}
