//! The demo model through the C functions, and what must be given back.

use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;

use crate::abi::*;

pub const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

pub struct Llama {
    pub baseline: Baseline,
    pub device: *mut iron_device,
    pub model: *mut iron_model,
    pub session: *mut iron_session,
}

impl Llama {
    pub fn new() -> Llama {
        Llama::with(1)
    }

    /// With a session of this many sequences.
    pub fn with(sequences: u32) -> Llama {
        let baseline = Baseline::take();
        let device = open("cpu");
        let path = CString::new(MODEL).expect("no NUL");
        let (mut model, mut session) = (null_mut(), null_mut());
        ok(call!(iron_model_open(
            device,
            path.as_ptr(),
            null(),
            &mut model
        )));
        let options = iron_session_options {
            size: size_of::<iron_session_options>(),
            sequences,
            context: 128,
            ..Default::default()
        };
        ok(call!(iron_session_create(model, &options, &mut session)));
        Llama {
            baseline,
            device,
            model,
            session,
        }
    }

    pub fn prompt(&self, text: &str) -> Vec<u32> {
        let mut tokens = vec![0; 256];
        let mut count = 0;
        ok(call!(iron_model_encode_prompt(
            self.model,
            text.as_ptr().cast(),
            text.len(),
            tokens.as_mut_ptr(),
            tokens.len(),
            &mut count
        )));
        tokens.truncate(count);
        tokens
    }

    pub fn tokenizer(&self) -> *mut iron_tokenizer {
        let mut tokenizer = null_mut();
        ok(call!(iron_model_tokenizer(self.model, &mut tokenizer)));
        tokenizer
    }

    pub fn feed(&self, sequence: u32, tokens: &[u32]) {
        ok(call!(iron_session_feed(
            self.session,
            sequence,
            tokens.as_ptr(),
            tokens.len()
        )));
    }

    pub fn tokens(&self, sequence: u32) -> Vec<u32> {
        let mut tokens = vec![0; 256];
        let mut count = 0;
        ok(call!(iron_session_tokens(
            self.session,
            sequence,
            tokens.as_mut_ptr(),
            tokens.len(),
            &mut count
        )));
        tokens.truncate(count);
        tokens
    }

    pub fn logits(&self, sequence: u32) -> Vec<f32> {
        let mut count = 0;
        ok(call!(iron_session_logits(
            self.session,
            sequence,
            null_mut(),
            0,
            &mut count
        )));
        let mut logits = vec![0.0; count];
        ok(call!(iron_session_logits(
            self.session,
            sequence,
            logits.as_mut_ptr(),
            count,
            &mut count
        )));
        logits
    }

    pub fn generate(
        &self,
        prompt: &str,
        options: &iron_generation_options,
    ) -> (String, iron_generation_info) {
        let prompt = self.prompt(prompt);
        let mut text = String::new();
        let mut info = iron_generation_info {
            size: size_of::<iron_generation_info>(),
            ..Default::default()
        };
        ok(call!(iron_generate(
            self.session,
            0,
            prompt.as_ptr(),
            prompt.len(),
            options,
            Some(append),
            (&raw mut text).cast(),
            &mut info
        )));
        (text, info)
    }

    /// Everything is given back.
    pub fn finish(self) {
        ok(call!(iron_session_release(self.session)));
        ok(call!(iron_model_release(self.model)));
        release_device(self.device);
        self.baseline.holds();
    }
}

/// Appends each piece to a `String`.
pub unsafe extern "C" fn append(piece: *const iron_piece, context: *mut c_void) -> u32 {
    // SAFETY: the piece lives through the call, and the context is a String.
    let (piece, text) = unsafe { (&*piece, &mut *context.cast::<String>()) };
    text.push_str(text_of(piece));
    0
}

/// A piece's text, which has a NUL behind it.
pub fn text_of(piece: &iron_piece) -> &str {
    // SAFETY: the text has the length that is stated and a NUL behind it.
    let bytes =
        unsafe { std::slice::from_raw_parts(piece.text.cast::<u8>(), piece.text_length + 1) };
    assert_eq!(bytes.last(), Some(&0));
    std::str::from_utf8(&bytes[..piece.text_length]).expect("whole characters")
}

pub fn generation_options(limit: u64) -> iron_generation_options {
    iron_generation_options {
        size: size_of::<iron_generation_options>(),
        limit,
        ..Default::default()
    }
}

/// A text by a function that takes a place, a capacity and a place for the length.
pub fn text(mut call: impl FnMut(*mut c_char, usize, &mut usize) -> iron_status) -> String {
    let mut length = 0;
    ok(call(null_mut(), 0, &mut length));
    let mut bytes = vec![0xb3u8; length + 2];
    ok(call(bytes.as_mut_ptr().cast(), length + 1, &mut length));
    assert_eq!(bytes[length..], [0, 0xb3]);
    // One byte too few: there is no room for the NUL.
    let mut none = 1;
    if length > 0 {
        fails(
            call(bytes.as_mut_ptr().cast(), length, &mut none),
            IRON_ERROR_OUT_OF_RANGE,
            &format!("{} are needed", length + 1),
        );
        assert_eq!(none, 0);
    }
    bytes.truncate(length);
    String::from_utf8(bytes).expect("UTF-8")
}
