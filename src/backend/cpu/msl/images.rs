//! Textures and samplers of a dispatch: whether they are what its kernel takes, and how texels of a format lie in
//! memory.

use super::abi::{Argument, Component, Images, Texture, VALUES};

/// Whether each texture that an argument names is bound, of its type, and of components that the kernel can take.
pub fn check_textures(argument: &Argument, images: &Images) -> Result<(), String> {
    for index in argument.index..argument.index.saturating_add(argument.count) {
        let texture = images
            .textures
            .get(index as usize)
            .ok_or_else(|| format!("there is no texture index {index}"))?;
        if texture.texels.is_null() {
            return Err(format!("nothing is bound to texture index {index}"));
        }
        if texture.kind != argument.texture_kind {
            let [bound, taken] = [texture.kind, argument.texture_kind].map(name_of_kind);
            return Err(format!(
                "a {bound} texture is bound to texture index {index}, which takes a {taken} texture"
            ));
        }
        if value(texture) != argument.value as usize {
            let [bound, taken] = [value(texture), argument.value as usize]
                .map(|value| VALUES.get(value).copied().unwrap_or("something else"));
            return Err(format!(
                "the texture at index {index} has {bound}, and the kernel takes {taken}"
            ));
        }
    }
    Ok(())
}

/// Whether each sampler that an argument names is bound.
pub fn check_samplers(argument: &Argument, images: &Images) -> Result<(), String> {
    for index in argument.index..argument.index.saturating_add(argument.count) {
        match images.samplers.get(index as usize) {
            None => return Err(format!("there is no sampler index {index}")),
            Some(sampler) if !sampler.bound => {
                return Err(format!("nothing is bound to sampler index {index}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// An index of `VALUES`.
fn value(texture: &Texture) -> usize {
    match texture.component {
        Component::Uint => 1,
        Component::Sint => 2,
        _ => 0,
    }
}

/// Of an MTLTextureType.
fn name_of_kind(kind: u32) -> String {
    let known = match kind {
        0 => "1D",
        1 => "1D array",
        2 => "2D",
        3 => "2D array",
        4 => "multisample",
        5 => "cube",
        6 => "cube array",
        7 => "3D",
        9 => "buffer",
        _ => return format!("type {kind}"),
    };
    String::from(known)
}
