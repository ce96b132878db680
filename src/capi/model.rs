//! `iron_model`.

use std::ffi::c_char;
use std::path::Path;

use super::arguments::{Room, path, text};
use super::call::{Failure, Outcome, enter};
use super::handle::{Place, acquire, handled, references, share_device};
use super::progress::Progress;
use super::structs::{self, Output, constant};
use crate::device::Device;
use crate::error::Status;
use crate::ffi;
use crate::handle::Handle;
use crate::llama::{LoadOptions, Model, ModelFile, RopeScaling, WeightStorage};
use crate::ops::RopePairing;

handled!(iron_model, c"model", Model);
references!(iron_model, iron_model_retain, iron_model_release);

/// The caller's device, by a handle of its own.
fn device(given: *mut ffi::iron_device) -> Outcome<Device> {
    let own = share_device(given)?;
    let handle = Handle::create("iron_device", |place: *mut *mut ffi::iron_device| {
        // SAFETY: `Handle::create` lends a place for it.
        unsafe { place.write(own) };
        ffi::IRON_OK
    });
    Ok(Device { handle: handle? })
}

fn load(device: &Device, file: &ModelFile, options: &ffi::iron_load_options) -> Outcome<Model> {
    const STORAGES: [WeightStorage; 4] = [
        WeightStorage::Automatic,
        WeightStorage::Mapped,
        WeightStorage::Moved,
        WeightStorage::Copied,
    ];
    let weights = constant("options.weights", &STORAGES, options.weights)?;
    let progress = Progress::new(options.progress, options.progress_context);
    let model = Model::load_while(device, file, LoadOptions { weights }, &mut |loaded| {
        progress.report(loaded.done, loaded.total)
    });
    Ok(model?)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_open(
    device: *mut ffi::iron_device,
    path: *const c_char,
    options: *const ffi::iron_load_options,
    model: *mut *mut ffi::iron_model,
) -> ffi::iron_status {
    enter(c"iron_model_open", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(model, "model") }?;
        let device = self::device(device)?;
        // SAFETY: the caller's pointers, as the header asks.
        let path: &Path = unsafe { self::path(path, "path") }?;
        // SAFETY: as above.
        let options = unsafe { structs::read(options, c"options") }?;
        place.fill(load(&device, &ModelFile::open(path)?, &options)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_load(
    device: *mut ffi::iron_device,
    file: *mut ffi::iron_model_file,
    options: *const ffi::iron_load_options,
    model: *mut *mut ffi::iron_model,
) -> ffi::iron_status {
    enter(c"iron_model_load", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(model, "model") }?;
        let device = self::device(device)?;
        let file = acquire(file)?;
        // SAFETY: the caller's pointer, as the header asks.
        let options = unsafe { structs::read(options, c"options") }?;
        place.fill(load(&device, &file.file, &options)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_describe(
    model: *mut ffi::iron_model,
    info: *mut ffi::iron_model_info,
) -> ffi::iron_status {
    enter(c"iron_model_describe", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let model = acquire(model)?;
        let config = model.config();
        let mut architecture = [0; 32];
        let name = config.architecture.name().bytes().take(31);
        for (place, byte) in architecture.iter_mut().zip(name) {
            *place = byte as c_char;
        }
        info.write(&ffi::iron_model_info {
            size: 0,
            architecture,
            vocabulary: config.vocabulary as u64,
            width: config.width as u64,
            layers: config.layers as u64,
            heads: config.heads as u64,
            kv_heads: config.kv_heads as u64,
            head_dim: config.head_dim as u64,
            feed_forward: config.feed_forward as u64,
            context: config.context as u64,
            rotary_dim: config.rotary_dim as u64,
            rope_pairing: match config.rope_pairing {
                RopePairing::Interleaved => ffi::IRON_ROPE_INTERLEAVED,
                RopePairing::Half => ffi::IRON_ROPE_HALF,
            },
            attention_scale: config.attention_scale,
            rms_epsilon: config.rms_epsilon,
            has_chat_template: model.chat_template().is_some().into(),
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_describe_layer(
    model: *mut ffi::iron_model,
    layer: u64,
    info: *mut ffi::iron_layer_info,
) -> ffi::iron_status {
    enter(c"iron_model_describe_layer", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let model = acquire(model)?;
        let plans = &model.config().plans;
        let plan = usize::try_from(layer)
            .ok()
            .and_then(|layer| plans.get(layer));
        let plan = plan.ok_or_else(|| {
            Failure::out_of_range(format!("layer: {layer}, the model has {}", plans.len()))
        })?;
        let mut native = ffi::iron_layer_info {
            window: plan.window.unwrap_or(0) as u64,
            rope_base: plan.rope_base,
            ..Default::default()
        };
        match plan.rope_scaling {
            RopeScaling::None => native.rope_scaling = ffi::IRON_ROPE_PLAIN,
            RopeScaling::Linear { factor } => {
                native.rope_scaling = ffi::IRON_ROPE_LINEAR;
                native.rope_factor = factor;
            }
            RopeScaling::Yarn(yarn) => {
                native.rope_scaling = ffi::IRON_ROPE_YARN;
                native.rope_factor = yarn.factor;
                native.yarn_beta_fast = yarn.beta_fast;
                native.yarn_beta_slow = yarn.beta_slow;
                native.yarn_attention_factor = yarn.attention_factor;
                native.yarn_original_context = yarn.original_context as u64;
            }
        }
        info.write(&native);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_chat_template(
    model: *mut ffi::iron_model,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_model_chat_template", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((text, capacity), "text", (length, "length")) }?;
        let model = acquire(model)?;
        let template = model
            .chat_template()
            .ok_or_else(|| Failure::new(Status::NotFound, "the model file has no chat template"))?;
        room.write_text(template.as_bytes())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_tokenizer(
    model: *mut ffi::iron_model,
    tokenizer: *mut *mut ffi::iron_tokenizer,
) -> ffi::iron_status {
    enter(c"iron_model_tokenizer", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(tokenizer, "tokenizer") }?;
        place.share(acquire(model)?.shared_tokenizer())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_device(
    model: *mut ffi::iron_model,
    device: *mut *mut ffi::iron_device,
) -> ffi::iron_status {
    enter(c"iron_model_device", || {
        if device.is_null() {
            return Err(Failure::invalid("device: is NULL"));
        }
        // SAFETY: the caller's place, as the header asks.
        unsafe { device.write(std::ptr::null_mut()) };
        let model = acquire(model)?;
        let own = share_device(model.device().handle.as_ptr())?;
        // SAFETY: as above; the reference is the caller's from here on.
        unsafe { device.write(own) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_encode_prompt(
    model: *mut ffi::iron_model,
    text: *const c_char,
    length: usize,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_model_encode_prompt", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((tokens, capacity), "tokens", (count, "count")) }?;
        let model = acquire(model)?;
        // SAFETY: as above.
        let text = unsafe { self::text(text, length, "text") }?;
        room.write(&model.encode_prompt(text))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_settle(model: *mut ffi::iron_model) -> ffi::iron_status {
    enter(c"iron_model_settle", || {
        acquire(model)?.settle();
        Ok(())
    })
}
