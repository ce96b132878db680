//! `rope`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::{ALONE, Machine, grain};

pub fn rope(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: rope_args = dispatch.arguments(ROPE_ARGS)?;
    let (tokens, heads, rotary_dim) = (args.tokens, args.heads, args.rotary_dim);
    if rotary_dim % 2 != 0 {
        return Err(dispatch.invalid(format!("rotary_dim is {rotary_dim}, which is odd")));
    }
    let pairing = args.pairing;
    if ![ROPE_PAIRING_INTERLEAVED, ROPE_PAIRING_HALF].contains(&pairing) {
        return Err(dispatch.invalid(format!("there is no pairing {pairing}")));
    }
    let extent = Extent::nested(
        (tokens, args.token_stride),
        (heads, args.head_stride),
        rotary_dim,
    );
    let x: View<f32> = dispatch.view(ROPE_X, "x", extent)?;
    let positions: View<u32> =
        dispatch.view(ROPE_POSITIONS, "positions", Extent::packed(tokens))?;
    let pairs = rotary_dim / 2;
    let factors: Option<View<f32>> = match args.has_factors {
        0 => None,
        _ => Some(dispatch.view(ROPE_FACTORS, "factors", Extent::packed(pairs))?),
    };
    dispatch.expect_threads([pairs.into(), heads.into(), tokens.into()])?;

    // The angle of position 1. Far from the start an f32 has no digits left for the angle's fraction, hence f64.
    let angles: Vec<f64> = (0..pairs as usize)
        .map(|i| {
            let exponent = -2.0 * i as f64 / f64::from(rotary_dim);
            let frequency = f64::from(args.frequency_base).powf(exponent);
            // SAFETY: `at` checked the place.
            let factor = factors.map_or(1.0, |factors| unsafe { factors.at(i, 1).read() });
            f64::from(args.frequency_scale) * frequency / f64::from(factor)
        })
        .collect();

    let (heads, rotary_dim) = (heads as usize, rotary_dim as usize);
    // Pair i: elements i * step and i * step + partner.
    let (step, partner) = match pairing {
        ROPE_PAIRING_INTERLEAVED => (2, 1),
        _ => (1, rotary_dim / 2),
    };
    let separable = x.writes_once()
        && x.is_apart_from(&positions)
        && factors.is_none_or(|factors| x.is_apart_from(&factors));
    let grain = if separable {
        grain(4 * heads * rotary_dim)
    } else {
        ALONE
    };
    machine.for_ranges(tokens as usize, grain, |tokens| {
        for token in tokens {
            // SAFETY: `at` checked the place.
            let position = f64::from(unsafe { positions.at(token, 1).read() });
            let turns = angles.iter().map(|angle| (position * angle).sin_cos());
            let turns: Vec<(f32, f32)> = turns.map(|(sin, cos)| (sin as f32, cos as f32)).collect();
            for head in 0..heads {
                let start = token * args.token_stride as usize + head * args.head_stride as usize;
                let x = x.at(start, rotary_dim);
                for (i, (sin, cos)) in turns.iter().enumerate() {
                    // SAFETY: both elements of a pair are among the `rotary_dim` that `at` checked.
                    unsafe {
                        let (first, second) = (x.add(i * step), x.add(i * step + partner));
                        let (a, b) = (first.read(), second.read());
                        first.write(a * cos - b * sin);
                        second.write(a * sin + b * cos);
                    }
                }
            }
        }
    });
    Ok(())
}
