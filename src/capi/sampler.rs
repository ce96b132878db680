//! `iron_sampler`, its options, and callbacks that change or replace what it does.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::arguments::{Value, array};
use super::call::{Failure, Outcome, enter};
use super::handle::{Exclusive, Place, acquire, handled, references};
use super::structs;
use crate::ffi;
use crate::llama::{LogitMask, Sampler, SamplerOptions};

handled!(iron_sampler, c"sampler", Exclusive<Sampler>);
references!(iron_sampler, iron_sampler_retain, iron_sampler_release);

/// # Safety
///
/// `given` is NULL or leads to as many bytes as its size says.
pub(super) unsafe fn sampler(
    given: *const ffi::iron_sampler_options,
    argument: &'static std::ffi::CStr,
) -> Outcome<Sampler> {
    // SAFETY: as the caller promises.
    let given = unsafe { structs::read(given, argument) }?;
    let or_one = |value: f32| if value == 0.0 { 1.0 } else { value };
    Ok(Sampler::new(SamplerOptions {
        temperature: given.temperature,
        top_k: (given.top_k > 0).then_some(given.top_k),
        top_p: or_one(given.top_p),
        min_p: given.min_p,
        repetition_penalty: or_one(given.repetition_penalty),
        frequency_penalty: given.frequency_penalty,
        presence_penalty: given.presence_penalty,
        penalty_window: match structs::limit("penalty_window", given.penalty_window, 64)? {
            usize::MAX => None,
            tokens => Some(tokens),
        },
        seed: given.seed,
    })?)
}

/// What the caller's functions do to logits before the sampler sees them.
pub(super) struct Callbacks {
    mask: ffi::iron_mask_callback,
    mask_context: *mut c_void,
    sample: ffi::iron_sample_callback,
    sample_context: *mut c_void,
    /// What `sample` picked where that is no token, and how many there are.
    refused: Arc<Refused>,
}

// SAFETY: the contexts are only handed to the caller's functions, on the thread that calls the C function, as the
// header says.
unsafe impl Send for Callbacks {}

/// The last number that a callback picked and that is no token.
#[derive(Debug)]
pub(super) struct Refused(AtomicU64);

const NOTHING: u64 = u64::MAX;

impl Refused {
    /// The failure that a call really had.
    pub fn explain(&self, failure: Failure) -> Failure {
        match self.0.swap(NOTHING, Ordering::Relaxed) {
            NOTHING => failure,
            picked => Failure::out_of_range(format!(
                "options.sample: it picked {picked}, which is no token"
            )),
        }
    }
}

impl Callbacks {
    pub fn new(
        (mask, mask_context): (ffi::iron_mask_callback, *mut c_void),
        (sample, sample_context): (ffi::iron_sample_callback, *mut c_void),
    ) -> Callbacks {
        Callbacks {
            mask,
            mask_context,
            sample,
            sample_context,
            refused: Arc::new(Refused(AtomicU64::new(NOTHING))),
        }
    }

    /// What this is for, where there is a function at all.
    pub fn into_mask(self) -> Option<Box<dyn LogitMask>> {
        let any = self.mask.is_some() || self.sample.is_some();
        any.then(|| Box::new(self) as Box<dyn LogitMask>)
    }

    pub fn refused(&self) -> Arc<Refused> {
        self.refused.clone()
    }
}

impl LogitMask for Callbacks {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        if let Some(mask) = self.mask {
            // SAFETY: the function is the caller's and gets arrays of these lengths.
            unsafe {
                mask(
                    tokens.as_ptr(),
                    tokens.len(),
                    logits.as_mut_ptr(),
                    logits.len(),
                    self.mask_context,
                )
            };
        }
        if let Some(sample) = self.sample {
            // SAFETY: as above.
            let picked = unsafe {
                sample(
                    tokens.as_ptr(),
                    tokens.len(),
                    logits.as_ptr(),
                    logits.len(),
                    self.sample_context,
                )
            };
            let is_token = (picked as usize) < logits.len();
            if !is_token {
                self.refused.0.store(picked.into(), Ordering::Relaxed);
            }
            // The sampler takes the one that is left; without one it fails.
            logits.fill(f32::NEG_INFINITY);
            if is_token {
                logits[picked as usize] = 0.0;
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_sampler_create(
    options: *const ffi::iron_sampler_options,
    sampler: *mut *mut ffi::iron_sampler,
) -> ffi::iron_status {
    enter(c"iron_sampler_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(sampler, "sampler") }?;
        // SAFETY: as above.
        let sampler = unsafe { self::sampler(options, c"options") }?;
        place.fill(Exclusive::new(sampler))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_sampler_sample(
    sampler: *mut ffi::iron_sampler,
    tokens: *const u32,
    token_count: usize,
    logits: *const f32,
    logit_count: usize,
    mask: ffi::iron_mask_callback,
    mask_context: *mut c_void,
    token: *mut u32,
) -> ffi::iron_status {
    enter(c"iron_sampler_sample", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Value::clear(token, "token") }?;
        let sampler = acquire(sampler)?;
        // SAFETY: as above.
        let tokens = unsafe { array(tokens, token_count, "tokens") }?;
        // SAFETY: as above.
        let logits = unsafe { array(logits, logit_count, "logits") }?;
        let callbacks = Callbacks::new((mask, mask_context), (None, std::ptr::null_mut()));
        let mut mask = callbacks.into_mask();
        let mask = mask.as_deref_mut().map(|mask| mask as &mut dyn LogitMask);
        let mut sampler = sampler.lock("sampler")?;
        place.set(sampler.sample_after(tokens, logits, mask)?);
        Ok(())
    })
}
